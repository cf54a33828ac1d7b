"""Reimplements the reports of users in pytorch_recsys at bb7c9e4, by an author of DPLCF."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.wild import exact

EPSILON, ITEMS = 1.0, 4
P_FLIP = 1.0 / (1.0 + math.exp(EPSILON))
P_AP = math.exp(-EPSILON)
"""Probability that the asymmetric mechanism reports an absent item."""


def _draw(x: int, ones: float, zeros: float, rng: np.random.Generator, size: int) -> NDArray[Any]:
    """Reports of the bit x: 1 with probability ``ones`` if x = 1, else with ``zeros``."""
    return (rng.random(size) < (ones if x else zeros)).astype(int)


def symmetric(x: int, rng: np.random.Generator, size: int) -> NDArray[Any]:
    """Reports by DPLCF-SP at epsilon 1, where rounding selects the branch that complements bits."""
    return _draw(x, P_FLIP, 1.0 - P_FLIP, rng, size)


def asymmetric(x: int, rng: np.random.Generator, size: int) -> NDArray[Any]:
    """Reports by DPLCF-AP, whose helper flips every bit with probability 1."""
    return _draw(x, 0.0, 1.0, rng, size)


def plain_asymmetric(x: int, rng: np.random.Generator, size: int) -> NDArray[Any]:
    """Reports by LCF-AP, which calls the mechanism itself."""
    return _draw(x, 1.0, P_AP, rng, size)


def dense(x: int, rng: np.random.Generator, size: int) -> NDArray[Any]:
    """Reports of one bit in the dense computation, drawn again for each other item."""
    flipped = rng.random((size, ITEMS - 1)) < P_FLIP
    return (flipped != bool(x)).astype(int)


def derive_epsilons() -> dict[str, float]:
    """Exact epsilon by mechanism, from listed outputs."""
    laws = {
        "symmetric": [exact.make_bit(P_FLIP), exact.make_bit(1.0 - P_FLIP)],
        "asymmetric": [exact.make_bit(0.0), exact.make_bit(1.0)],
        "plain_asymmetric": [exact.make_bit(1.0), exact.make_bit(P_AP)],
        "dense": [exact.join([exact.make_bit(p)] * (ITEMS - 1)) for p in (P_FLIP, 1.0 - P_FLIP)],
    }
    return {key: exact.find_epsilon(law) for key, law in laws.items()}
