"""Compiled standard normal draws for whole item tables. The module imports numba."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.targets.compiled import FUSED_MATH_FLAGS, jit_compile
from fedrec_auditor.targets.streams import Streams

# Standard normal draws for whole item tables, from one stream per client, in compiled code.
#
# Entries 2k and 2k + 1 of a client's table are sqrt(-2 ln u) cos(2 pi w) and sqrt(-2 ln u) sin(2 pi
# w) (Box and Muller 1958), with u and w the upper 52 bits of words 2k and 2k + 1 of its stream
# (``Streams.draw_words``), as odd multiples of 2^-53. A table thus depends only on the client's
# seed and can be drawn again instead of being stored. Logarithm, sine and cosine are our own
# series, accurate to a few units in the last place, so that the loops vectorize. A draw takes 2 ns,
# a hundredth of the time of ``Streams.draw_normal``, whose draws differ. Draws reach 8.5 standard
# deviations.
#
# This module imports numba, and is therefore imported only when noise is drawn.

_WORDS = tuple(
    np.uint64(word) for word in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)
_GOLDEN, _MIX_FIRST, _MIX_SECOND = _WORDS
_S12, _S27, _S30, _S31, _S52 = (np.uint64(shift) for shift in (12, 27, 30, 31, 52))
_UNIT, _LOWER = np.uint64(0x3FF0000000000000), np.uint64(0x3FE0000000000000)  # bits of 1.0 and 0.5
_FRACTION = np.uint64(0x000FFFFFFFFFFFFF)
_HALF, _LN2, _TAU = 2.0**-53, math.log(2.0), 2.0 * math.pi
_ROOT = math.sqrt(0.5)
_PAIRS = 256  # pairs of draws in one pass, few enough for the fastest cache
_WIDTH = 64  # a multiple of the vector width
_F = tuple(1.0 / math.factorial(n) for n in range(17))

_compiled = jit_compile(fastmath=FUSED_MATH_FLAGS, error_model="numpy")
_part = jit_compile(cache=False, fastmath=FUSED_MATH_FLAGS, error_model="numpy")


def draw_normals(
    streams: Streams, shape: tuple[int, ...], dtype: type[np.floating[Any]] = np.float32
) -> NDArray[Any]:
    """Draws standard normal numbers for a table of the given shape per stream, (len(streams),
    *shape).
    """
    out = np.empty((len(streams), math.prod(shape)), dtype)
    fill_normals(np.ascontiguousarray(streams.seeds), out)
    return out.reshape(len(streams), *shape)


def sum_normals(streams: Streams, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Returns the sum of ``draw_normals`` over all streams, of shape ``shape``, without storing the
    draws.
    """
    out = np.zeros(math.prod(shape))
    _accumulate(np.ascontiguousarray(streams.seeds), out)
    return out.reshape(shape)


@_part
def _hash(out: NDArray[np.uint64], count: int) -> None:
    """Replaces the first ``count`` entries, positions in random streams, by the streams' random
    bits.

    The bits are those of float64 numbers in [1, 2).
    """
    for k in range(count):
        word = out[k]
        for _ in range(2):
            word = (word ^ (word >> _S30)) * _MIX_FIRST
            word = (word ^ (word >> _S27)) * _MIX_SECOND
            word = word ^ (word >> _S31)
        out[k] = (word >> _S12) | _UNIT


@_compiled
def fill_normals(seeds: NDArray[np.uint64], out: NDArray[Any]) -> None:
    """Writes standard normal draws to ``out``, one row per seed; for calls from Python.

    Compiled code calls ``write_normals``.
    """
    write_normals(seeds, out)


@_part
def write_normals(seeds: NDArray[np.uint64], out: NDArray[Any]) -> None:
    """Writes standard normal draws to ``out``, one row per seed; for calls from compiled code."""
    clients, count = out.shape
    pairs = (count + 1) // 2
    if pairs == 0:
        return
    word, second = np.zeros(_PAIRS, np.uint64), np.zeros(_PAIRS, np.uint64)
    unit, turn = word.view(np.float64), second.view(np.float64)  # the same bits, read as numbers
    size = np.zeros(_PAIRS, np.float64)
    together = max(1, _PAIRS // pairs)  # clients in one pass
    for begin in range(0, clients, together):
        here = min(together, clients - begin)
        for start in range(0, pairs, _PAIRS):
            count_here = min(_PAIRS, pairs - start)
            for i in range(here):
                at = seeds[begin + i] + np.uint64(2 * start + 1) * _GOLDEN
                for k in range(count_here):
                    word[i * count_here + k] = at + np.uint64(2 * k) * _GOLDEN
                    second[i * count_here + k] = at + np.uint64(2 * k + 1) * _GOLDEN
            # Whole vectors are computed, so that a draw does not depend on the number of draws.
            width = min(_PAIRS, -(-here * count_here // _WIDTH) * _WIDTH)
            _hash(word, width)
            _hash(second, width)
            for k in range(width):
                unit[k] = (unit[k] - 1.0) + _HALF
            for k in range(width):  # u = fraction in [0.5, 1) times 2^size
                size[k] = np.float64(np.int32(word[k] >> _S52) - 1022)
                word[k] = (word[k] & _FRACTION) | _LOWER
            for k in range(width):
                low = unit[k] < _ROOT
                m = 2.0 * unit[k] if low else unit[k]
                e = size[k] - 1.0 if low else size[k]
                s = (m - 1.0) / (m + 1.0)
                q = s * s
                p = 1 / 21.0
                p = p * q + 1 / 19.0
                p = p * q + 1 / 17.0
                p = p * q + 1 / 15.0
                p = p * q + 1 / 13.0
                p = p * q + 1 / 11.0
                p = p * q + 1 / 9.0
                p = p * q + 1 / 7.0
                p = p * q + 1 / 5.0
                p = p * q + 1 / 3.0
                p = p * q + 1.0
                size[k] = math.sqrt(-2.0 * (e * _LN2 + 2.0 * s * p))
            for k in range(width):  # turns = quarter / 4 + x / 2 pi, |x| <= pi/4
                w = (turn[k] - 1.0) + _HALF
                quarter = math.floor(4.0 * w + 0.5)
                x = _TAU * (w - 0.25 * quarter)
                q = x * x
                s = _F[13] - q * _F[15]
                s = _F[11] - q * s
                s = _F[9] - q * s
                s = _F[7] - q * s
                s = _F[5] - q * s
                s = _F[3] - q * s
                s = x - x * q * s
                c = _F[14] - q * _F[16]
                c = _F[12] - q * c
                c = _F[10] - q * c
                c = _F[8] - q * c
                c = _F[6] - q * c
                c = _F[4] - q * c
                c = _F[2] - q * c
                c = 1.0 - q * c
                odd = (quarter == 1.0) | (quarter == 3.0)
                cosine, sine = (s if odd else c), (c if odd else s)
                cosine = -cosine if (quarter == 1.0) | (quarter == 2.0) else cosine
                sine = -sine if (quarter == 2.0) | (quarter == 3.0) else sine
                turn[k], unit[k] = size[k] * cosine, size[k] * sine
            for i in range(here):
                for k in range(count_here):
                    out[begin + i, 2 * (start + k)] = turn[i * count_here + k]
                    if 2 * (start + k) + 1 < count:
                        out[begin + i, 2 * (start + k) + 1] = unit[i * count_here + k]


@_compiled
def _accumulate(seeds: NDArray[np.uint64], out: NDArray[np.float64]) -> None:
    """Adds the standard normal draws of all seeds to ``out``."""
    table = np.empty((1, len(out)), np.float32)
    for i in range(len(seeds)):
        write_normals(seeds[i : i + 1], table)
        for k in range(len(out)):
            out[k] += table[0, k]
