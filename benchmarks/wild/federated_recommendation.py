"""Reimplements federated_recommendation at 9d12a48: weights that clients send."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray


def weights(x: float, rng: np.random.Generator, size: int) -> NDArray[np.float64]:
    """The sent weight: x without the noise that is drawn for it."""
    rng.normal(size=size)
    return np.full(size, x)


def derive_epsilons() -> dict[str, float]:
    """Exact epsilon by mechanism: infinite, because each output proves its input."""
    return {"weights": math.inf}
