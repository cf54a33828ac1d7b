"""Counts in thin tails, from a model of the log-ratio that the whole histogram bears out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import special

from fedrec_auditor.auditor.worlds.estimators.parts.logistic_regression import fitted

Array = NDArray[np.float64]
# A tail whose counts are so many deviations off refutes the model.
_DEVIATIONS = 3.3
_LEAST_PARTS = 8


def smoothed(first: Array, second: Array, middles: Array) -> tuple[Array, Array] | None:
    """What to expect in each part, (m,) and (m,), in place of the counts; None if no model fits.

    ``first`` and ``second`` (m,) are counts, equally many in all, in parts around ``middles``. The
    log-ratio is taken to be linear (Gaussian noise), linear between the two centres and flat
    beyond (Laplace noise), quadratic (noise of two sizes), or a sum of these: the least complex
    that the counts favour (Bayesian information criterion). A tail then borrows from both worlds:
    of the n outputs seen there, the second has n / (1 + e^ratio), though none was seen. No model
    fits if any tail contradicts it. It only helps to choose: no bound rests on it.
    """
    kept = (first + second > 0) & np.isfinite(middles)
    if np.count_nonzero(kept) < _LEAST_PARTS:
        return None
    x = _features(first, second, np.where(kept, middles, 0.0), kept)
    total = first[kept].sum() + second[kept].sum()
    best, log_odds = -np.inf, np.zeros(len(first))
    for columns in ([0, 2], [0, 1], [0, 1, 2], [0, 1, 3], [0, 1, 2, 3]):
        weights = fitted(x[kept][:, columns], first[kept], second[kept])
        odds = x[:, columns] @ weights
        log_first, log_second = special.log_expit(odds[kept]), special.log_expit(-odds[kept])
        merit = float(first[kept] @ log_first + second[kept] @ log_second)
        merit -= len(columns) * np.log(total) / 2
        if merit > best:
            best, log_odds = merit, odds
    probability = special.expit(log_odds)
    both = first + second
    miss, room = first - both * probability, both * probability * (1 - probability)
    for order in (slice(None), slice(None, None, -1)):
        off = np.abs(np.cumsum(miss[order])) - 1.0
        if np.any(off > _DEVIATIONS * np.sqrt(np.cumsum(room[order]))):
            return None
    return both * probability, both * (1 - probability)


def _features(first: Array, second: Array, middles: Array, kept: NDArray[np.bool_]) -> Array:
    centres = [_median(counts[kept], middles[kept]) for counts in (first, second)]
    low, high = min(centres), max(centres)
    spread = max(float(np.std(middles[kept])), 1e-300)
    z = (middles - (low + high) / 2) / spread
    clipped = (np.clip(middles, low, high) - low) / max(high - low, 1e-300)
    return np.stack([np.ones(len(z)), z, clipped, z * z], axis=1)


def _median(counts: Array, middles: Array) -> float:
    return float(middles[np.searchsorted(np.cumsum(counts), counts.sum() / 2)])
