"""Random numbers of many clients at once, with one counter-based generator per client.

A draw depends only on the client's 64-bit seed and on the position of the draw in the client's
stream. A batch of clients thus draws the same numbers as each client alone. The generator is
SplitMix64 (Steele, Lea and Flood, OOPSLA 2014), with its finalizer applied twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_ONES = np.uint64(2**64 - 1)
_HALF = 2.0**-53  # uniforms are odd multiples of it, exactly: never 0, never 1


@dataclass(frozen=True, slots=True)
class Streams:
    """Random streams of n clients: per client, an endless sequence of random 64-bit words.

    seeds: seed of each client's stream, from which its words are computed (n,)
    """

    seeds: NDArray[np.uint64]

    @classmethod
    def spawn(cls, rng: np.random.Generator, count: int) -> Self:
        """Creates streams for ``count`` clients, each seeded with the next word of ``rng``.

        Calls for one client after another therefore give the same streams as one call for all
        clients.
        """
        return cls(rng.integers(0, _ONES, size=count, dtype=np.uint64, endpoint=True))

    def __len__(self) -> int:
        return len(self.seeds)

    def take(self, clients: NDArray[np.integer[Any]]) -> Streams:
        """Returns the streams of ``clients`` (indices) alone, in this order."""
        return Streams(self.seeds[clients])

    def skip_words(self, count: int | NDArray[np.integer[Any]]) -> Streams:
        """Returns the streams without their first ``count`` random words.

        ``count`` is one number for all streams, or an array (n,) with one number per stream.
        """
        with np.errstate(over="ignore"):
            return Streams(self.seeds + np.asarray(count, np.uint64) * _GOLDEN)

    def derive(self, purpose: int) -> Streams:
        """Derives one new stream per client, independent of the client's other streams.

        ``purpose`` is an integer of at least 0 that stands for the use of the stream. Different
        numbers give independent streams.
        """
        with np.errstate(over="ignore"):
            mark = _mix(np.array([np.uint64(purpose)]) * _GOLDEN + _SECOND)
        return Streams(_mix(_mix(self.seeds ^ mark)))

    def draw_words(self, count: int, start: int = 0) -> NDArray[np.uint64]:
        """Returns ``count`` words of every stream: random 64-bit integers of shape (n, count).

        The words have the positions ``start`` to ``start + count - 1`` in their stream.
        """
        # The word at position n (from 0) is the seed plus n + 1 times the golden ratio, hashed
        # twice.
        with np.errstate(over="ignore"):
            steps = np.arange(start + 1, start + count + 1, dtype=np.uint64) * _GOLDEN
            return _mix(_mix(self.seeds[:, None] + steps))

    def draw_uniform(self, count: int, start: int = 0) -> NDArray[np.float64]:
        """Draws uniform numbers in the open interval (0, 1) from every stream: shape (n, count).

        Each draw uses one word (a random number of 64 bits) of its stream, from position ``start``
        on.
        """
        return _to_uniform(self.draw_words(count, start))

    def draw_laplace(self, count: int, start: int = 0) -> NDArray[np.float64]:
        """Draws Laplace noise of scale 1 from every stream: shape (n, count).

        Each draw uses one word (a random number of 64 bits) of its stream, from position ``start``
        on. Absolute values are at most 36.7.
        """
        return _to_laplace(self.draw_words(count, start))

    def draw_normal(self, count: int, start: int = 0) -> NDArray[np.float64]:
        """Draws standard normal noise from every stream, by inversion: shape (n, count).

        Each draw uses one word (a random number of 64 bits) of its stream, from position ``start``
        on.
        """
        from scipy.special import ndtri

        return np.asarray(ndtri(self.draw_uniform(count, start)))

    def draw_laplace_at(
        self, clients: NDArray[np.integer[Any]], positions: NDArray[np.integer[Any]]
    ) -> NDArray[np.float64]:
        """Draws Laplace noise of scale 1 from single words of the streams.

        clients: index of the stream that each draw uses
        positions: position in this stream of the 64-bit word that the draw uses, from 0

        The arrays are broadcast to a common shape, the shape of the result.
        """
        return _to_laplace(self._draw_words_at(clients, positions))

    def draw_normal_at(
        self, clients: NDArray[np.integer[Any]], positions: NDArray[np.integer[Any]]
    ) -> NDArray[np.float64]:
        """Draws standard normal noise from single words of the streams.

        clients: index of the stream that each draw uses
        positions: position in this stream of the 64-bit word that the draw uses, from 0

        The arrays are broadcast to a common shape, the shape of the result.
        """
        from scipy.special import ndtri

        return np.asarray(ndtri(_to_uniform(self._draw_words_at(clients, positions))))

    def _draw_words_at(
        self, clients: NDArray[np.integer[Any]], positions: NDArray[np.integer[Any]]
    ) -> NDArray[np.uint64]:
        with np.errstate(over="ignore"):
            steps = (positions.astype(np.uint64) + np.uint64(1)) * _GOLDEN
            return _mix(_mix(self.seeds[clients] + steps))


def _mix(word: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finalizer of SplitMix64, a bijection of 64-bit words."""
    with np.errstate(over="ignore"):
        word = (word ^ (word >> np.uint64(30))) * _FIRST
        word = (word ^ (word >> np.uint64(27))) * _SECOND
        return word ^ (word >> np.uint64(31))


def _to_uniform(words: NDArray[np.uint64]) -> NDArray[np.float64]:
    return (words >> np.uint64(12)).astype(np.float64) * (2 * _HALF) + _HALF


def _to_laplace(words: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Converts random words to Laplace noise of scale 1, by inversion of an exponential.

    The lowest bit of a word gives the sign, and the upper 52 bits the absolute value.
    """
    size = np.log(_to_uniform(words))
    return np.where(words & np.uint64(1), size, -size)
