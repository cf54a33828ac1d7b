"""Testing a local randomizer for its privacy ratio, exactly or from samples."""

from __future__ import annotations

from auditor.verification.exact.law import Density
from auditor.verification.verification import Check, Status, Verification
from auditor.verification.verify import verify_ldp

__all__ = ["Check", "Density", "Status", "Verification", "verify_ldp"]
