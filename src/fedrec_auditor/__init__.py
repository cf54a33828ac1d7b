"""Audits privacy claims of federated recommenders, and tests local randomizers.

- ``audit`` runs a whole audit and returns its ``Record``. ``sweep`` runs audits over a grid of
  settings.
- ``audit_system`` audits your own system against your claims, which are ``Claim`` objects.
  ``wrap_system`` makes a system that the command line can audit, and ``wrap_torch`` makes a client
  from a torch module.
- ``RecordingWriter`` records the uploads of any system, and ``record_uploads`` trains a system once
  and records its uploads. ``attack_recording`` attacks a recording.
- ``verify_ldp`` tests one mechanism against one claim.
- ``account`` computes the epsilon of noise, per round and in total.
- ``from_scores`` computes a lower bound on epsilon from canary scores of your own trainings.

Importing this package does not import torch or scikit-learn; the first call that needs them does.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedrec_auditor.accountants.errors import InputError
    from fedrec_auditor.auditor.own.recorded_uploads import attack_recording, record_uploads
    from fedrec_auditor.auditor.own.your_system import audit_system, wrap_system
    from fedrec_auditor.auditor.plan.stated_claim import StatedClaim as Claim
    from fedrec_auditor.auditor.run.runner import audit
    from fedrec_auditor.auditor.spending.spend import Account, account
    from fedrec_auditor.auditor.sweep.sweep import sweep
    from fedrec_auditor.auditor.verification import Verification, verify_ldp
    from fedrec_auditor.auditor.worlds.scores import from_scores
    from fedrec_auditor.reports.record.record import Record, Sweep
    from fedrec_auditor.targets.recorded.recording_writer import RecordingWriter
    from fedrec_auditor.targets.wrapped.torch_client import wrap_torch

    __version__: str

__all__ = [
    "Account",
    "Claim",
    "InputError",
    "Record",
    "RecordingWriter",
    "Sweep",
    "Verification",
    "__version__",
    "account",
    "attack_recording",
    "audit",
    "audit_system",
    "from_scores",
    "record_uploads",
    "sweep",
    "verify_ldp",
    "wrap_system",
    "wrap_torch",
]

_PLACES = {
    "Account": "auditor.spending.spend:Account",
    "Claim": "auditor.plan.stated_claim:StatedClaim",
    "InputError": "accountants.errors:InputError",
    "Record": "reports.record.record:Record",
    "RecordingWriter": "targets.recorded.recording_writer:RecordingWriter",
    "Sweep": "reports.record.record:Sweep",
    "Verification": "auditor.verification:Verification",
    "account": "auditor.spending.spend:account",
    "attack_recording": "auditor.own.recorded_uploads:attack_recording",
    "audit": "auditor.run.runner:audit",
    "audit_system": "auditor.own.your_system:audit_system",
    "from_scores": "auditor.worlds.scores:from_scores",
    "record_uploads": "auditor.own.recorded_uploads:record_uploads",
    "sweep": "auditor.sweep.sweep:sweep",
    "verify_ldp": "auditor.verification:verify_ldp",
    "wrap_system": "auditor.own.your_system:wrap_system",
    "wrap_torch": "targets.wrapped.torch_client:wrap_torch",
}


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("fedrec-auditor")
    if name not in _PLACES:
        raise AttributeError(f"module 'fedrec_auditor' has no attribute {name!r}")
    module, _, attribute = _PLACES[name].partition(":")
    return getattr(import_module(f"fedrec_auditor.{module}"), attribute)
