"""LCF-AP: it uploads what DPLCF-AP does, and an uploaded 0 proves a 0."""

from __future__ import annotations

from dataclasses import dataclass

from fedrec_auditor.auditor.demonstrations.base import DistinguishingGame
from fedrec_auditor.auditor.demonstrations.parts.one_bit import one_bit
from fedrec_auditor.targets.systems.dplcf.lcf_ap import LcfAp
from fedrec_auditor.targets.systems.dplcf.lcf_sp import LcfSp


@dataclass(frozen=True, kw_only=True)
class LcfApZeros:
    """As ``DplcfApZeros``: the systems differ in what the server makes of the bits, not in them.

    The control flips symmetrically at the same epsilon.
    """

    samples: int = 2_000
    epsilon: float = 1.0

    target = "lcf-ap"
    entries = ("7",)

    def violation(self) -> DistinguishingGame:
        """The bit of item 0, flipped asymmetrically; ``samples`` a world."""
        return one_bit(LcfAp(epsilon=self.epsilon), self.samples)

    def control(self) -> DistinguishingGame:
        """The same bit, flipped symmetrically; 500 times as many samples."""
        return one_bit(LcfSp(epsilon=self.epsilon), 500 * self.samples)
