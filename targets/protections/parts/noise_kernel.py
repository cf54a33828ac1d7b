"""The fused loop behind ``ClippedNoise``: clip, hash, invert, add, an entry at a time.

The draws are those of ``Streams.laplace``, to the last bit or two of the logarithm.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fedrec_auditor.targets.compiled import compiled

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_ONE, _ELEVEN = np.uint64(1), np.uint64(11)
_S27, _S30, _S31 = np.uint64(27), np.uint64(30), np.uint64(31)
_UNIT, _HALF = 2.0**-53, 2.0**-54


@compiled(kept=False, inline="always")
def _mix(word: np.uint64) -> np.uint64:
    word = (word ^ (word >> _S30)) * _FIRST
    word = (word ^ (word >> _S27)) * _SECOND
    return word ^ (word >> _S31)


@compiled(kept=False, inline="always")
def _sent(entry: float, word: np.uint64, clip: float, scale: float) -> float:
    size = scale * math.log(np.float64(word >> _ELEVEN) * _UNIT + _HALF)
    value: float = np.float64(entry)
    if value > clip:
        value = clip
    elif value < -clip:
        value = -clip
    return value + size if word & _ONE else value - size


@compiled()
def laplace(flat: Any, seeds: Any, clip: float, scale: float, out: Any) -> None:
    """``out`` (n, size) from ``flat``, clipped, and the Laplace draws of ``seeds`` (n,)."""
    for client in range(flat.shape[0]):
        seed = seeds[client]
        step = np.uint64(0)
        for place in range(flat.shape[1]):
            step += _GOLDEN
            out[client, place] = _sent(flat[client, place], _mix(_mix(seed + step)), clip, scale)


@compiled()
def laplace_rows(
    values: Any, indptr: Any, ids: Any, seeds: Any, clip: float, scale: float, out: Any
) -> None:
    """The same for rows ``ids`` (nnz,) of tables of which client i has ``indptr[i]`` and on."""
    width = values.shape[1]
    for client in range(len(seeds)):
        for row in range(indptr[client], indptr[client + 1]):
            step = np.uint64(ids[row] * width) * _GOLDEN
            for place in range(width):
                step += _GOLDEN
                word = _mix(_mix(seeds[client] + step))
                out[row, place] = _sent(values[row, place], word, clip, scale)
