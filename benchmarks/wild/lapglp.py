"""Reimplements LapGLP at 5d94706: degrees of items by randomized response."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from benchmarks.wild import exact

P_KEEP = 0.8


def degree(x: int, rng: np.random.Generator, size: int) -> NDArray[np.int64]:
    """Reports of the bit x of a user for an item, true with probability ``P_KEEP``."""
    return np.where(rng.random(size) < P_KEEP, x, 1 - x)


def derive_epsilons() -> dict[str, float]:
    """Exact epsilon by mechanism, from listed outputs."""
    return {"degree": exact.find_epsilon([exact.make_bit(P_KEEP), exact.make_bit(1.0 - P_KEEP)])}
