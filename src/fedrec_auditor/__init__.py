"""Is the epsilon true? Audits of federated recommenders and tests of local randomizers.

``audit`` runs a whole audit and returns its record; ``verify_ldp`` tests one mechanism;
``account`` says what noise, sampling and rounds spend; ``from_scores`` bounds epsilon by scores of
canaries that somebody else has trained with. Importing
this package imports neither torch nor scikit-learn; they come with the first call.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedrec_auditor.accountants.errors import InputError
    from fedrec_auditor.auditor.runner import audit
    from fedrec_auditor.auditor.scores import from_scores
    from fedrec_auditor.auditor.spending.account import Account
    from fedrec_auditor.auditor.spending.spend import account
    from fedrec_auditor.auditor.verification import Verification, verify_ldp

    __version__: str

__all__ = [
    "Account",
    "InputError",
    "Verification",
    "__version__",
    "account",
    "audit",
    "from_scores",
    "verify_ldp",
]

_PLACES = {
    "Account": "fedrec_auditor.auditor.spending.account",
    "InputError": "fedrec_auditor.accountants.errors",
    "Verification": "fedrec_auditor.auditor.verification",
    "account": "fedrec_auditor.auditor.spending.spend",
    "audit": "fedrec_auditor.auditor.runner",
    "from_scores": "fedrec_auditor.auditor.scores",
    "verify_ldp": "fedrec_auditor.auditor.verification",
}


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("fedrec-auditor")
    if name not in _PLACES:
        raise AttributeError(f"module 'fedrec_auditor' has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), name)
