"""Is the epsilon true? Audits of federated recommenders and tests of local randomizers.

``audit`` runs a whole audit and returns its record; ``verify_ldp`` tests one mechanism. Importing
this package imports neither torch nor scikit-learn; they come with the first call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from auditor.runner import audit
    from auditor.verification import Verification, verify_ldp

__all__ = ["Verification", "audit", "verify_ldp"]

_PLACES = {
    "audit": "auditor.runner",
    "Verification": "auditor.verification",
    "verify_ldp": "auditor.verification",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'auditor' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_PLACES[name]), name)
