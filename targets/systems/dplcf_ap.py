"""DPLCF with asymmetric flipping: p = 1, q = e^-eps."""

from __future__ import annotations

from dataclasses import dataclass

from targets.mechanisms.bit_flip import BitFlip
from targets.systems._dplcf import FlippedBits, tables


@dataclass(frozen=True, kw_only=True)
class DplcfAp(FlippedBits):
    """DPLCF-AP (section 3.2.2): claimed epsilon-private, but an uploaded 0 proves a 0.

    p/q = e^eps bounds the ratio for an uploaded 1 only; for an uploaded 0 the ratio
    (1-q)/(1-p) is infinite. What does hold is (eps, delta) with delta = 1 - e^-eps.
    """

    name = "dplcf-ap"
    place = "section 3.2.2 (asymmetric flipping, p = 1, q = p e^-epsilon)"

    reported = tables(movielens=(0.6962, 0.4454), apps=(0.5943, 0.4081))

    @property
    def flip(self) -> BitFlip:
        """p = 1, q = e^-eps."""
        return BitFlip.asymmetric(self.epsilon)
