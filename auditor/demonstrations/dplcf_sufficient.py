"""DPLCF: a flip with p/q = e^epsilon, said to suffice, leaks more by its zeros."""

from __future__ import annotations

from dataclasses import dataclass

from fedrec_auditor.auditor.demonstrations.base import DistinguishingGame, PairedGames
from fedrec_auditor.auditor.demonstrations.parts.one_bit import one_bit
from fedrec_auditor.targets.systems.dplcf.dplcf_ap import DplcfAp
from fedrec_auditor.targets.systems.dplcf.dplcf_sp import DplcfSp


@dataclass(frozen=True, kw_only=True)
class DplcfSufficient(PairedGames):
    """p = 0.9, q = p/e keeps p/q = e^1 (section 3.2.1), yet epsilon is ln((1-q)/(1-p)) = 1.90.

    The condition suffices up to p = e^eps/(1+e^eps) = 0.731 only, which is what the control takes:
    symmetric flipping.
    """

    samples: int = 100_000
    epsilon: float = 1.0
    keep: float = 0.9

    target = "dplcf-ap"
    entries = ("6",)

    def game(self, violates: bool) -> DistinguishingGame:
        """A p that the condition allows but that is too large; the control has the largest."""
        if violates:
            return one_bit(DplcfAp(epsilon=self.epsilon, keep=self.keep), self.samples)
        return one_bit(DplcfSp(epsilon=self.epsilon), 10 * self.samples)
