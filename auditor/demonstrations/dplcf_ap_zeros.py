"""DPLCF-AP: an uploaded 0 proves a 0, so a claimed epsilon of 1 falls to a few uploads."""

from __future__ import annotations

from dataclasses import dataclass

from fedrec_auditor.auditor.demonstrations.base import DistinguishingGame
from fedrec_auditor.auditor.demonstrations.parts.one_bit import one_bit
from fedrec_auditor.targets.systems.dplcf.dplcf_ap import DplcfAp
from fedrec_auditor.targets.systems.dplcf.dplcf_sp import DplcfSp


@dataclass(frozen=True, kw_only=True)
class DplcfApZeros:
    """A 0 for item 0 has probability 1 - 1/e if it is not held, and 0 if it is (section 3.2.2).

    The control flips symmetrically at the same epsilon, where the claim is right: the same bit, of
    more users, stays within it.
    """

    samples: int = 2_000
    epsilon: float = 1.0

    target = "dplcf-ap"
    entries = ("7",)

    def violation(self) -> DistinguishingGame:
        """The bit of item 0, flipped asymmetrically; ``samples`` a world."""
        return one_bit(DplcfAp(epsilon=self.epsilon), self.samples)

    def control(self) -> DistinguishingGame:
        """The same bit, flipped symmetrically; 500 times as many samples."""
        return one_bit(DplcfSp(epsilon=self.epsilon), 500 * self.samples)
