"""Random noise of secure-aggregation rounds, drawn from each client's stream instead of stored."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.targets.compiled import FUSED_MATH, compiled
from fedrec_auditor.targets.components import Ints, RandomizedMessages
from fedrec_auditor.targets.streams import Streams

# Standard normal draws for whole item tables, from one stream per client, in compiled code.
#
# Entries 2k and 2k + 1 of a client's table are sqrt(-2 ln u) cos(2 pi w) and sqrt(-2 ln u) sin(2 pi
# w) (Box and Muller 1958), with u and w the upper 52 bits of words 2k and 2k + 1 of its stream
# (``Streams.random_bits``), as odd multiples of 2^-53. A table thus depends only on the client's
# seed and can be drawn again instead of being stored. Logarithm, sine and cosine are our own
# series, accurate to a few units in the last place, so that the loops vectorize. A draw takes 2 ns,
# a hundredth of the time of ``Streams.normal``, whose draws differ. Draws reach 8.5 standard
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

_compiled = compiled(fastmath=FUSED_MATH, error_model="numpy")
_part = compiled(kept=False, fastmath=FUSED_MATH, error_model="numpy")


def table_normals(
    streams: Streams, shape: tuple[int, ...], dtype: type[np.floating[Any]] = np.float32
) -> NDArray[Any]:
    """Draws standard normal numbers for a table of the given shape per stream, (len(streams),
    *shape).
    """
    out = np.empty((len(streams), math.prod(shape)), dtype)
    fill_draws(np.ascontiguousarray(streams.seeds), out)
    return out.reshape(len(streams), *shape)


def summed_normals(streams: Streams, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Returns the sum of ``table_normals`` over all streams, of shape ``shape``, without storing
    the draws.
    """
    out = np.zeros(math.prod(shape))
    _accumulate(np.ascontiguousarray(streams.seeds), out)
    return out.reshape(shape)


@_part
def _hash(out: NDArray[np.uint64], count: int) -> None:
    """Replaces positions in random streams by random bits, which are float64 numbers in [1, 2)."""
    for k in range(count):
        word = out[k]
        for _ in range(2):
            word = (word ^ (word >> _S30)) * _MIX_FIRST
            word = (word ^ (word >> _S27)) * _MIX_SECOND
            word = word ^ (word >> _S31)
        out[k] = (word >> _S12) | _UNIT


@_compiled
def fill_draws(seeds: NDArray[np.uint64], out: NDArray[Any]) -> None:
    """Writes standard normal draws to ``out``, one row per seed of ``seeds``.

    The function serves callers that are not compiled; compiled callers use ``normals``.
    """
    normals(seeds, out)


@_part
def normals(seeds: NDArray[np.uint64], out: NDArray[Any]) -> None:
    """Writes standard normal draws to ``out``, one row per seed of ``seeds``."""
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
    table = np.empty((1, len(out)), np.float32)
    for i in range(len(seeds)):
        normals(seeds[i : i + 1], table)
        for k in range(len(out)):
            out[k] += table[0, k]


_FIRST, _SECOND = 0, 1  # keys of a client's random streams, for its first and second message
_TAIL = 9.0  # bound on the draws of ``table_normals``, in standard deviations


@dataclass(frozen=True, slots=True)
class MaskedGradient:
    """First message of a device in a round: the gradient plus noise, N(0, ``scale``^2) per entry.

    ``scale``: standard deviation of the noise.
    ``start``: position in the flattened item table at which the messages begin; one number, or one
        per client.
    """

    scale: float
    start: int | Ints = 0

    def __call__(self, values: NDArray[Any], streams: Streams) -> NDArray[Any]:
        """Returns the messages of all n clients for their gradients ``values``: (n, *shape),
        float32.
        """
        return np.asarray(values + _noise(streams, _FIRST, values.shape, self.scale, self.start))

    def limit(self, largest: float) -> float:
        """Returns a bound on the absolute value of every number of a message.

        ``largest`` is such a bound for the gradients.
        """
        return largest + _TAIL * self.scale

    def summed(self, total: NDArray[Any], streams: Streams) -> NDArray[np.float64]:
        """Returns the sum of the messages of all clients, given the sum ``total`` of their
        gradients.
        """
        return np.asarray(total + _summed(streams, _FIRST, total.shape, self.scale, self.start))

    def skipping(self, count: int | Ints) -> MaskedGradient:
        """Returns a copy of this object for messages that begin ``count`` entries later in the item
        table.
        """
        return replace(self, start=self.start + count)


@dataclass(frozen=True, slots=True)
class Replacement:
    """Second message of a device in a round: -xi + xi', which replaces the noise xi of the first.

    ``old_sigma``: standard deviation of xi.
    ``new_sigma``: standard deviation of the new noise xi'.
    ``is_repaired``: whether the message is -b instead, a part of the noise xi = a + b.
    ``start``: position in the flattened item table at which the messages begin; one number, or one
        per client.

    The messages do not depend on the gradients. In the repaired protocol a and b are independent,
    and a has deviation ``new_sigma``. Given xi, b is N(rho xi, rho (1 - rho) ``old_sigma``^2), with
    rho = 1 - (``new_sigma``/``old_sigma``)^2.
    """

    old_sigma: float
    new_sigma: float
    is_repaired: bool = False
    start: int | Ints = 0

    def __call__(self, values: NDArray[Any], streams: Streams) -> NDArray[Any]:
        """Returns the messages of all n clients: (n, *shape), float32; ``values`` gives only the
        shape.
        """
        own, last = self.draw_weights
        xi = _noise(streams, _FIRST, values.shape, own - self.old_sigma, self.start)
        return xi + _noise(streams, _SECOND, values.shape, last, self.start)

    def limit(self, largest: float) -> float:
        """Returns a bound on the absolute value of every number of a message; ``largest`` is not
        used.
        """
        own, last = self.draw_weights
        return _TAIL * (abs(own - self.old_sigma) + abs(last))

    def summed(self, total: NDArray[Any], streams: Streams) -> NDArray[np.float64]:
        """Returns the sum of the messages of all clients; from ``total`` only the shape is used."""
        own, last = self.draw_weights
        xi = _summed(streams, _FIRST, total.shape, own - self.old_sigma, self.start)
        return xi + _summed(streams, _SECOND, total.shape, last, self.start)

    def skipping(self, count: int | Ints) -> Replacement:
        """Returns a copy of this object for messages that begin ``count`` entries later in the item
        table.
        """
        return replace(self, start=self.start + count)

    @property
    def draw_weights(self) -> tuple[float, float]:
        """Weights of a client's two standard normal draws in the sum of its two messages.

        The first draw makes xi, the noise of the first message. The second makes the new noise, or
        in the repaired protocol b, which is random given xi.
        """
        if not self.is_repaired:
            return 0.0, self.new_sigma
        rho = 1.0 - (self.new_sigma / self.old_sigma) ** 2
        return (1.0 - rho) * self.old_sigma, -self.old_sigma * math.sqrt(rho * (1.0 - rho))


def sum_messages(
    update: RandomizedMessages, masked: Ints, clear: RandomizedMessages, replaced: Ints
) -> NDArray[np.float64]:
    """Returns the sum of all messages of a round, without drawing the noise that cancels between
    them.

    ``update``, ``masked``: first messages that arrived, and the indices of their clients.
    ``clear``, ``replaced``: second messages that arrived, and the indices of their clients.

    The result equals ``update.total() + clear.total()``.
    """

    assert isinstance(clear.randomize, Replacement)
    reply, shape = clear.randomize, clear.shape
    silent = update.streams.take(np.flatnonzero(~np.isin(masked, replaced)))
    noise = reply.old_sigma * summed_normals(silent.fold_in(_FIRST), shape)
    own, last = reply.draw_weights
    if own:
        noise += own * summed_normals(clear.streams.fold_in(_FIRST), shape)
    noise += last * summed_normals(clear.streams.fold_in(_SECOND), shape)
    return np.asarray(update.clean.total() + noise)


def _noise(
    streams: Streams, purpose: int, shape: tuple[int, ...], scale: float, start: int | Ints
) -> NDArray[np.float32]:

    odd, size = np.asarray(start) % 2, math.prod(shape[1:])  # entries are drawn in pairs
    pairs: NDArray[np.float32] = table_normals(
        streams.fold_in(purpose).skip_words(start - odd), (int(odd.any()) + size,)
    )
    drawn = pairs[:, -size:] if odd.all() else pairs[:, :size]
    if odd.any() and not odd.all():
        drawn = np.where(odd[:, None] == 1, pairs[:, 1:], drawn)
    drawn *= np.float32(scale)
    return drawn.reshape(len(streams), *shape[1:])


def _summed(
    streams: Streams, purpose: int, shape: tuple[int, ...], scale: float, start: int | Ints
) -> NDArray[np.float64]:

    odd = int(start) % 2  # equal in all messages
    drawn = summed_normals(
        streams.fold_in(purpose).skip_words(start - odd), (odd + math.prod(shape),)
    )
    return scale * drawn[odd:].reshape(shape)
