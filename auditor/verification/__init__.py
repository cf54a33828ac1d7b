"""Tests whether a local randomizer satisfies a claimed epsilon, exactly or from samples."""

from __future__ import annotations

from fedrec_auditor.auditor.exact.fit import Check, Status
from fedrec_auditor.auditor.exact.output_distribution import Density
from fedrec_auditor.auditor.verification.verification import Verification
from fedrec_auditor.auditor.verification.verify import verify_ldp

__all__ = ["Check", "Density", "Status", "Verification", "verify_ldp"]
