"""Exact confidence limits of proportions, and the epsilon that two of them show."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special


def clopper_pearson_lower(
    successes: ArrayLike, trials: ArrayLike, alpha: float | NDArray[np.float64]
) -> NDArray[np.float64]:
    """Exact lower confidence limit of a proportion at level 1 - alpha."""
    k = np.asarray(successes, dtype=np.float64)
    limit = special.betaincinv(np.maximum(k, 1), np.asarray(trials) - k + 1, alpha)
    return np.where(k > 0, limit, 0.0)


def clopper_pearson_upper(
    successes: ArrayLike, trials: ArrayLike, alpha: float | NDArray[np.float64]
) -> NDArray[np.float64]:
    """Exact upper confidence limit of a proportion at level 1 - alpha."""
    k = np.asarray(successes, dtype=np.float64)
    rest = np.asarray(trials) - k
    return np.where(rest > 0, special.betaincinv(k + 1, np.maximum(rest, 1), 1 - alpha), 1.0)


def event_epsilon(
    hits: ArrayLike,
    trials: ArrayLike,
    misses: ArrayLike,
    others: ArrayLike,
    *,
    delta: float,
    alpha: float,
) -> NDArray[np.float64]:
    """Least epsilon that explains an event: ln((P_low - delta) / Q_high), at least 0.

    ``hits`` of ``trials`` samples of one world and ``misses`` of ``others`` of the other fell into
    the event; each limit takes half of alpha, so the bound holds at level 1 - alpha. Vectorised
    over events.
    """
    low = clopper_pearson_lower(hits, trials, alpha / 2) - delta
    high = clopper_pearson_upper(misses, others, alpha / 2)
    ratio = np.divide(low, high, out=np.ones_like(low), where=low > high)
    return np.asarray(np.log(ratio))
