"""Reimplements decentrailized_mf_with_hdp at 2ee0588: noise on an item's gradient."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

BUDGET, MAX_ERROR, DIMENSION, EPOCHS = 1.0, 4.0, 10, 100
SCALE = 2.0 * MAX_ERROR * math.sqrt(DIMENSION) / BUDGET
"""Laplace scale: 2 x largest error x largest L1 norm of a unit vector / budget."""


def _add_noise(x: float, rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Noisy gradients; without noise they are x times a unit vector of equal entries."""
    spread = np.sqrt(2.0 * rng.exponential(size=shape))
    return x / math.sqrt(DIMENSION) + SCALE * spread * rng.normal(size=shape)


def epoch(x: float, rng: np.random.Generator, size: int) -> NDArray[np.float64]:
    """One noisy entry of one epoch's gradient, which is x without noise."""
    return x + SCALE * np.sqrt(2.0 * rng.exponential(size=size)) * rng.normal(size=size)


def vector(x: float, rng: np.random.Generator, size: int) -> NDArray[np.float64]:
    """All noisy entries of one epoch's gradient, whose L2 norm is the absolute x without noise."""
    return _add_noise(x, rng, (size, DIMENSION))


def training(x: float, rng: np.random.Generator, size: int) -> NDArray[np.float64]:
    """One noisy entry of the gradient in every epoch, which is x without noise."""
    noise = SCALE * np.sqrt(2.0 * rng.exponential(size=(size, EPOCHS)))
    return x + noise * rng.normal(size=(size, EPOCHS))


def derive_epsilons() -> dict[str, float]:
    """Exact epsilon by mechanism: the sum of all changes divided by the noise scale."""
    one = 2.0 * MAX_ERROR / SCALE
    return {"epoch": one, "vector": one * math.sqrt(DIMENSION), "training": one * EPOCHS}
