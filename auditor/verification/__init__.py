"""Tests whether a randomizer satisfies a claimed epsilon of local differential privacy.

The test is exact if the output probabilities are known, and otherwise uses drawn outputs.
"""

from __future__ import annotations

from fedrec_auditor.auditor.exact.fit import CheckResult, CheckStatus
from fedrec_auditor.auditor.exact.output_distribution import Density
from fedrec_auditor.auditor.verification.verification import Verification
from fedrec_auditor.auditor.verification.verify import verify_ldp

__all__ = ["CheckResult", "CheckStatus", "Density", "Verification", "verify_ldp"]
