"""Distinct whole numbers, and each one's place among them, without a sort where that can be."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def unique(ids: NDArray[np.integer[Any]]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The ids that occur, ascending, and each id's place among them.

    Without a sort where none is negative and the largest not much larger than their number.
    """
    if ids.min() < 0 or ids.max() > 4 * ids.size + 2**16:
        present, inverse = np.unique(ids, return_inverse=True)
        return present.astype(np.int64), inverse.astype(np.int32)
    occurs = np.zeros(int(ids.max()) + 1, dtype=bool)
    occurs[ids] = True
    place = np.cumsum(occurs, dtype=np.int32) - np.int32(1)
    return np.flatnonzero(occurs), place[ids]


def narrow(numbers: NDArray[np.int64]) -> NDArray[np.integer[Any]]:
    """The same in four bytes each where they fit."""
    fits = numbers.min() >= -(2**31) and numbers.max() < 2**31
    return numbers.astype(np.int32) if fits else numbers
