"""DPLCF-AP: an uploaded 0 proves a 0, so a claimed epsilon of 1 falls to a few uploads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedrec_auditor.auditor.demonstrations.base import DistinguishingGame, PairedGames
from fedrec_auditor.auditor.demonstrations.parts.one_bit import one_bit
from fedrec_auditor.targets.systems.dplcf.dplcf_ap import DplcfAp
from fedrec_auditor.targets.systems.dplcf.dplcf_sp import DplcfSp
from fedrec_auditor.targets.systems.dplcf.parts.item_knn import FlippedKnn


@dataclass(frozen=True, kw_only=True)
class DplcfApZeros(PairedGames):
    """A 0 for item 0 has probability 1 - 1/e if it is not held, and 0 if it is (section 3.2.2).

    The control flips symmetrically at the same epsilon, where the claim is right: the same bit, of
    more users, stays within it.
    """

    samples: int = 2_000
    epsilon: float = 1.0

    target = "dplcf-ap"
    entries = ("7",)

    asymmetric: ClassVar[type[FlippedKnn]] = DplcfAp
    symmetric: ClassVar[type[FlippedKnn]] = DplcfSp

    def game(self, violates: bool) -> DistinguishingGame:
        """The bit of item 0, flipped asymmetrically; the control has 500 times as many samples."""
        kind, times = (self.asymmetric, 1) if violates else (self.symmetric, 500)
        return one_bit(kind(epsilon=self.epsilon), times * self.samples)
