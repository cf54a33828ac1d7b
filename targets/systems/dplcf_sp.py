"""DPLCF with symmetric flipping: p = 1 - q = e^eps/(1 + e^eps)."""

from __future__ import annotations

from dataclasses import dataclass

from targets.mechanisms.bit_flip import BitFlip
from targets.systems._dplcf import FlippedBits, tables


@dataclass(frozen=True, kw_only=True)
class DplcfSp(FlippedBits):
    """DPLCF-SP (section 3.2.2): the claim of epsilon for one interaction is right and tight."""

    name = "dplcf-sp"
    place = "section 3.2.2 (symmetric flipping, p = 1 - q)"

    reported = tables(movielens=(0.7000, 0.4870), apps=(0.3747, 0.2674))

    @property
    def flip(self) -> BitFlip:
        """p = e^eps/(1 + e^eps), q = 1 - p."""
        return BitFlip.symmetric(self.epsilon)
