"""Reimplements SPIREL at a37508e: transitions between places under local privacy."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from benchmarks.wild import exact

TOTAL, ROUNDS, PEMF_TOTAL, PEMF_ROUNDS, N_PAIRS = 0.8, 10, 1.0, 20, 4
HALF = TOTAL / 2.0
P_KEEP = math.exp(TOTAL) / (1.0 + math.exp(TOTAL))
"""Probability of a kept bit in the baseline ICF."""
P_OWN = 1.0 / (math.exp(HALF) + 1.0)
"""Probability of a 1 at the user's own pair of places; 1/2 at all others."""


def _compute_p(x: float, above: float, below: float) -> float:
    """The probability of a report of -1 for a gradient x in [-1, 1]."""
    return (x * math.expm1(above) + math.exp(above) + 1.0) / (2.0 * math.exp(below) + 2.0)


def gradient(x: float, rng: np.random.Generator, size: int) -> NDArray[np.int64]:
    """Reported signs of a clamped gradient x."""
    return np.where(rng.random(size) < _compute_p(x, HALF, HALF / ROUNDS), -1, 1)


def reference(x: float, rng: np.random.Generator, size: int) -> NDArray[np.int64]:
    """Reported signs of a gradient x in one round of the baseline PEMF."""
    share = PEMF_TOTAL / PEMF_ROUNDS
    return np.where(rng.random(size) < _compute_p(x, share, share), -1, 1)


def row(x: int, rng: np.random.Generator, size: int) -> NDArray[np.int64]:
    """Reports of the bit x of a user in the baseline ICF."""
    return x * (rng.random(size) < P_KEEP).astype(int)


def transitions(x: int, rng: np.random.Generator, size: int) -> NDArray[np.int64]:
    """Reported bits of ``N_PAIRS`` pairs of places, of which pair x is the user's own."""
    chances = np.full(N_PAIRS, 0.5)
    chances[int(x)] = P_OWN
    return (rng.random((size, N_PAIRS)) < chances).astype(int)


def derive_epsilons() -> dict[str, float]:
    """Exact epsilon by mechanism, from listed outputs."""

    def find_signs_epsilon(above: float, below: float) -> float:
        return exact.find_epsilon(exact.make_bit(_compute_p(x, above, below)) for x in (-1.0, 1.0))

    share, pairs = PEMF_TOTAL / PEMF_ROUNDS, range(N_PAIRS)
    return {
        "gradient": find_signs_epsilon(HALF, HALF / ROUNDS),
        "reference": find_signs_epsilon(share, share),
        "row": exact.find_epsilon([exact.make_bit(0.0), exact.make_bit(P_KEEP)]),
        "transitions": exact.find_epsilon(exact.make_unary(x, N_PAIRS, P_OWN, 0.5) for x in pairs),
    }
