"""Reimplements reports in pytorch_recsys at bb7c9e4, by an author of DPLCF."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.wild import exact

EPSILON, ITEMS = 1.0, 4
FLIPPED = 1.0 / (1.0 + math.exp(EPSILON))
AP = math.exp(-EPSILON)
"""Probability that the asymmetric mechanism reports an absent item."""


def _bits(x: int, ones: float, zeros: float, rng: np.random.Generator, size: int) -> NDArray[Any]:
    """Reports of the bit x: 1 with probability ``ones`` if x = 1, else with ``zeros``."""
    return (rng.random(size) < (ones if x else zeros)).astype(int)


def symmetric(x: int, rng: np.random.Generator, size: int) -> NDArray[Any]:
    """Reports by DPLCF-SP at epsilon 1, where rounding selects the branch that complements bits."""
    return _bits(x, FLIPPED, 1.0 - FLIPPED, rng, size)


def asymmetric(x: int, rng: np.random.Generator, size: int) -> NDArray[Any]:
    """Reports by DPLCF-AP, whose helper flips every bit with probability 1."""
    return _bits(x, 0.0, 1.0, rng, size)


def plain_asymmetric(x: int, rng: np.random.Generator, size: int) -> NDArray[Any]:
    """Reports by LCF-AP, which calls the mechanism itself."""
    return _bits(x, 1.0, AP, rng, size)


def dense(x: int, rng: np.random.Generator, size: int) -> NDArray[Any]:
    """Reports of one bit in the dense computation, drawn again for each other item."""
    flipped = rng.random((size, ITEMS - 1)) < FLIPPED
    return (flipped != bool(x)).astype(int)


def second_routes() -> dict[str, float]:
    """Exact epsilon by mechanism, from listed outputs."""
    laws = {
        "symmetric": [exact.bit(FLIPPED), exact.bit(1.0 - FLIPPED)],
        "asymmetric": [exact.bit(0.0), exact.bit(1.0)],
        "plain_asymmetric": [exact.bit(1.0), exact.bit(AP)],
        "dense": [exact.product([exact.bit(p)] * (ITEMS - 1)) for p in (FLIPPED, 1.0 - FLIPPED)],
    }
    return {key: exact.epsilon(law) for key, law in laws.items()}
