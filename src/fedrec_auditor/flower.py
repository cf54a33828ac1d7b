"""Audits of apps of Flower (https://flower.ai); needs the extra ``flower``.

``wrap`` makes a system of a ``ClientApp`` or of a function that makes a ``NumPyClient``, for
``fedrec_auditor.audit_system``; ``claims`` tells what its mods and strategies promise;
``RecordUploads`` records a training, for ``auditor attack``.
"""

from fedrec_auditor.auditor.own.flower_app import claims, wrap
from fedrec_auditor.targets.wrapped.flower.flower_client import RecordUploads

__all__ = ["RecordUploads", "claims", "wrap"]
