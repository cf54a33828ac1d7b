"""64-bit fingerprints of outputs: equal rows have equal ones, others hardly ever."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_BLOCK = 1 << 22


def fingerprints(rows: NDArray[Any]) -> NDArray[np.uint64]:
    """A fingerprint (n,) for each of ``rows`` (n, d) of whole numbers, booleans or words.

    One number is its own. Else the sum of its entries, or of their characters, each times a random
    64-bit weight of its place, modulo 2^64 (Carter and Wegman 1979, multilinear hashing): padding
    of words to another width changes nothing, and two different rows agree with probability 2^-64
    times a small power of 2.
    """
    n, d = rows.shape
    if rows.dtype.kind != "U":
        numbers = rows.astype(np.int64).view(np.uint64)
        return numbers[:, 0] if d == 1 else _summed(numbers, _weights(0, d))
    letters = np.ascontiguousarray(rows).view(np.uint32).reshape(n, d, -1)
    used = letters.shape[2]
    found = np.zeros(n, dtype=np.uint64)
    for entry in range(d):
        found += _summed(letters[:, entry], _weights(entry, used))
    return found


def _weights(entry: int, count: int) -> NDArray[np.uint64]:
    """Odd weights, the same for the same entry, however many are asked for."""
    rng = np.random.Generator(np.random.Philox(key=entry + 1))
    return rng.integers(2**64, size=count, dtype=np.uint64, endpoint=False) | np.uint64(1)


def _summed(numbers: NDArray[Any], weights: NDArray[np.uint64]) -> NDArray[np.uint64]:
    step = max(1, _BLOCK // max(1, len(weights)))
    parts = [
        numbers[start : start + step].astype(np.uint64) @ weights
        for start in range(0, len(numbers), step)
    ]
    return np.concatenate([np.zeros(0, dtype=np.uint64), *parts])
