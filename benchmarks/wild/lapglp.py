"""Reimplements LapGLP at 5d94706: degrees of items by randomized response."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from benchmarks.wild import exact

KEPT = 0.8


def degree(x: int, rng: np.random.Generator, size: int) -> NDArray[np.int64]:
    """Reports of the bit x of a user for an item, true with probability ``KEPT``."""
    return np.where(rng.random(size) < KEPT, x, 1 - x)


def second_routes() -> dict[str, float]:
    """Exact epsilon by mechanism, from listed outputs."""
    return {"degree": exact.epsilon([exact.bit(KEPT), exact.bit(1.0 - KEPT)])}
