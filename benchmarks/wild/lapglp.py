"""LapGLP at 5d94706: degrees of items by randomized response, written anew from its code."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from benchmarks.wild import exact

KEPT = 0.8


def degree(x: int, rng: np.random.Generator, size: int) -> NDArray[np.int64]:
    """A user's bit of an item: the true one with chance ``KEPT``."""
    return np.where(rng.random(size) < KEPT, x, 1 - x)


def second_routes() -> dict[str, float]:
    """By listing the outputs."""
    return {"degree": exact.epsilon([exact.bit(KEPT), exact.bit(1.0 - KEPT)])}
