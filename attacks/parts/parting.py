"""Values in two groups, cut where the variance between the groups is largest (Otsu 1979)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def parted(values: NDArray[np.floating[Any]]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Place of each value (n, M) from its row's cut: +1 at the smaller group's mean, else -1.

    And the share of each row's variance that is between its groups, (n,).

    >>> place, share = parted(np.array([[0.0, 0.1, 1.0, 0.9, 0.05]]))
    >>> place.round(1).tolist(), share.round(2).tolist()
    ([[-1.0, -0.9, 1.0, 0.9, -1.0]], [0.99])
    """
    ordered, size = np.sort(values.astype(np.float64), axis=1), values.shape[1]
    low = np.cumsum(ordered, axis=1)[:, :-1]
    count = np.arange(1, size)
    below, above = low / count, (ordered.sum(axis=1, keepdims=True) - low) / (size - count)
    between = count * (size - count) * (above - below) ** 2 / size**2
    best = np.argmax(between, axis=1)[:, None]
    left, right, most = (np.take_along_axis(cut, best, axis=1) for cut in (below, above, between))
    half = np.maximum((right - left) / 2, np.finfo(np.float64).tiny)
    up = np.where(count[best] * 2 >= size, 1.0, -1.0)
    place = up * np.clip((values - (left + right) / 2) / half, -1, 1)
    spread = np.maximum(ordered.var(axis=1), np.finfo(np.float64).tiny)
    return place, most[:, 0] / spread
