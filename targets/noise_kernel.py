"""Compiled loops that clip the entries of messages and add Laplace noise.

The noise of an entry equals that of ``Streams.draw_laplace``, except for the last two bits of the
logarithm.
"""

# The noise is a random sign times the scale times -log(u), with u uniform in (0, 1).
# The loops are written so that compilers vectorize them: they contain no branch, no call and no
# division that may raise, and they convert integers to floats by their bits, for which every
# processor has an instruction. They do not use ``fastmath``, so that the result for an entry does
# not depend on its place in a block.

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fedrec_auditor.targets.compiled import jit_compile

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_S12, _S27, _S30, _S31, _S52, _S63 = (np.uint64(shift) for shift in (12, 27, 30, 31, 52, 63))
_MANTISSA, _BITS_OF_1 = np.uint64(2**52 - 1), np.uint64(1023 << 52)
_BITS_OF_2_52, _WITH_BIAS = np.uint64(1075 << 52), 2.0**52 + 1023
_HALF = 2.0**-53
_LN2 = float.fromhex("0x1.62e42feep-1")  # ends in zeros: times an exponent it is exact
_LN2_REST = 1.9082149292705877e-10
_ROOT2 = math.sqrt(2.0)


@jit_compile(cache=False, inline="always")
def _mix(word: np.uint64) -> np.uint64:
    word = (word ^ (word >> _S30)) * _FIRST
    word = (word ^ (word >> _S27)) * _SECOND
    return word ^ (word >> _S31)


@jit_compile(cache=False, inline="always", error_model="numpy")
def log(x: float) -> float:
    """Computes the natural logarithm of a positive normal double.

    The error is at most two units in the last place.
    """
    # x = 2^k m with m in (sqrt(1/2), sqrt(2)]. log m = 2 atanh(s) with s = (m - 1) / (m + 1), by
    # the series in z = s^2 <= 0.0295, whose terms after z^10 are below 1e-17 of the sum.
    bits = np.float64(x).view(np.uint64)
    mantissa = np.uint64((bits & _MANTISSA) | _BITS_OF_1).view(np.float64)
    above = mantissa > _ROOT2
    m = mantissa * (0.5 if above else 1.0)
    power = np.uint64((bits >> _S52) | _BITS_OF_2_52).view(np.float64) - _WITH_BIAS
    k = power + (1.0 if above else 0.0)
    s = (m - 1.0) / (m + 1.0)
    z = s * s
    w = z * z
    even = 2 / 3 + w * (2 / 7 + w * (2 / 11 + w * (2 / 15 + w * (2 / 19))))
    odd = 2 / 5 + w * (2 / 9 + w * (2 / 13 + w * (2 / 17 + w * (2 / 21))))
    return k * _LN2 + ((s * (z * (even + z * odd)) + k * _LN2_REST) + 2.0 * s)


@jit_compile(cache=False, inline="always")
def _add_noise(entry: float, word: np.uint64, clip: float, scale: float) -> float:
    unit = (np.uint64((word >> _S12) | _BITS_OF_1).view(np.float64) - 1.0) + _HALF
    size = np.float64(-scale * log(unit)).view(np.uint64)
    signed = np.uint64(size ^ np.uint64(word << _S63)).view(np.float64)
    below = min(np.float64(entry), clip)
    return max(below, -clip) + signed


@jit_compile(error_model="numpy")
def add_laplace(flat: Any, seeds: Any, clip: float, scale: float, out: Any) -> None:
    """Clips messages, adds Laplace noise, and writes the result into ``out``.

    flat: the messages of n clients, shape (n, size)
    seeds: seed of each client's random stream, shape (n,)
    clip: entries are clipped to [-clip, clip]
    scale: scale of the noise
    out: array that receives the result, shape (n, size)
    """
    for client in range(flat.shape[0]):
        at = seeds[client]
        for place in range(flat.shape[1]):
            at += _GOLDEN
            out[client, place] = _add_noise(flat[client, place], _mix(_mix(at)), clip, scale)


@jit_compile(error_model="numpy")
def add_laplace_rows(
    values: Any, indptr: Any, ids: Any, seeds: Any, clip: float, scale: float, out: Any
) -> None:
    """Clips table rows, adds Laplace noise, and writes the result into ``out``.

    values: stored rows of the tables of n clients, shape (nnz, d)
    indptr: client i has the rows ``values[indptr[i] : indptr[i + 1]]``, shape (n + 1,)
    ids: index of each row in the client's whole table, shape (nnz,)
    seeds: seed of each client's random stream, shape (n,)
    clip: entries are clipped to [-clip, clip]
    scale: scale of the noise
    out: array that receives the result, shape (nnz, d)

    The noise of a row is the noise that ``add_laplace`` adds to it in the whole table.
    """
    width = values.shape[1]
    for client in range(len(seeds)):
        for row in range(indptr[client], indptr[client + 1]):
            at = seeds[client] + np.uint64(ids[row] * width) * _GOLDEN
            for place in range(width):
                at += _GOLDEN
                out[row, place] = _add_noise(values[row, place], _mix(_mix(at)), clip, scale)
