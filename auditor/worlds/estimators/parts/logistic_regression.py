"""Logistic regression: the log-ratio of two distributions as a weighted sum of features."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import special

Array = NDArray[np.float64]
_STEPS = 30
_PENALTY = 1e-4
_LONGEST_STEP = 4.0
_SETTLED = 1e-7


def fitted(features: Array, first: Array, second: Array) -> Array:
    """Weights (f,) of ``features`` (n, f), whose rows came ``first`` and ``second`` times (n,).

    Maximum likelihood with a slight ridge, by Newton's method with limited steps, so that worlds
    which a plane separates have an answer as well.
    """
    total = first + second
    share = total / total.sum()
    scale = np.maximum(np.sqrt(share @ (features * features)), 1e-12)
    x = features / scale
    target = first / total.sum()
    weights = np.zeros(x.shape[1])
    ridge = _PENALTY * np.eye(x.shape[1])
    for _ in range(_STEPS):
        probability = special.expit(x @ weights)
        gradient = x.T @ (target - share * probability) - _PENALTY * weights
        curvature = (x.T * (share * probability * (1 - probability))) @ x + ridge
        step = np.linalg.solve(curvature, gradient)
        longest = float(np.abs(x @ step).max())
        weights += step * min(1.0, _LONGEST_STEP / max(longest, 1e-12))
        if longest < _SETTLED:
            break
    return np.asarray(weights / scale)
