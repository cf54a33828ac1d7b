"""Counts of the ones that two rows of packed bits share, in compiled code (numba)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.core import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from fedrec_auditor.targets.compiled import compiled

_ROWS = 64  # rows that stay in the cache while all others pass


def _population_count(context: Any, word: Any) -> Any:
    """The number of ones in a word: an instruction of the processor's own."""
    return types.uint64(types.uint64), lambda c, builder, signature, words: builder.ctpop(words[0])


_ones: Any = intrinsic(_population_count)


@compiled(kept=False)
def _both(a: NDArray[np.uint64], b: NDArray[np.uint64]) -> np.uint64:
    found = np.uint64(0)
    for word in range(a.shape[0]):
        found += _ones(a[word] & b[word])
    return found


@compiled()
def count_pairs(
    packed: NDArray[np.uint64], rows: NDArray[np.int64], found: NDArray[np.int64]
) -> None:
    """Add to ``found`` (k, M) the ones that each of ``rows`` (k,) of ``packed`` (M, W) shares."""
    for first in range(0, rows.shape[0], _ROWS):
        last = min(first + _ROWS, rows.shape[0])
        for other in range(packed.shape[0]):
            words = packed[other]
            for row in range(first, last):
                found[row, other] += np.int64(_both(packed[rows[row]], words))
