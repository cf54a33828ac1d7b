"""The order of pairs of user and item, rows then columns, and the table that they make."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse


def in_order(
    row: NDArray[np.int32],
    column: NDArray[np.int32],
    values: NDArray[np.float32],
    shape: tuple[int, int],
) -> sparse.csr_array:
    """The table of pairs that are in order and differ."""
    starts = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=shape[0]))])
    return sparse.csr_array((values, column, starts.astype(np.int32)), shape=shape)


def latest(
    row: NDArray[np.int32],
    column: NDArray[np.int32],
    n_items: int,
    times: NDArray[np.int64] | None = None,
) -> NDArray[np.int64] | slice:
    """Which entries stay, in the order of rows and columns: of equals the latest, then the last."""
    key = row * np.int64(n_items) + column
    if (key[1:] > key[:-1]).all():
        return slice(None)
    order: NDArray[np.int64] = np.argsort(key)
    last = np.concatenate([np.diff(key[order]) > 0, [True]])
    if last.all():
        return order
    # equal pairs: by time, then as they came
    order = np.argsort(key, kind="stable") if times is None else np.lexsort((times, key))
    kept: NDArray[np.int64] = order[last]
    return kept
