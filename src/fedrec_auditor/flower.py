"""Audits of Flower apps (https://flower.ai); requires the extra ``flower``.

``wrap`` makes a system for ``audit_system`` from a ``ClientApp`` or from a function that makes a
``NumPyClient``. ``claims`` returns the privacy claims that an app's mods and strategies imply.
``RecordUploads`` records the uploads of a training for the command ``auditor attack``.
"""

from fedrec_auditor.auditor.own.flower_app import claims, wrap
from fedrec_auditor.targets.wrapped.flower.flower_client import RecordUploads

__all__ = ["RecordUploads", "claims", "wrap"]
