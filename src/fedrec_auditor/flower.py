"""Audits of apps of Flower (https://flower.ai); needs the extra ``flower``.

``wrap`` makes a system of a ``ClientApp`` or of a function that makes a ``NumPyClient``, for
``fedrec_auditor.audit_system``; ``claims`` tells what its mods and strategies promise.
"""

from fedrec_auditor.auditor.flower_app import claims, wrap

__all__ = ["claims", "wrap"]
