"""Randomness of many clients at once: a counter-based generator a client, whatever the batch.

A client's draws depend on its own 64-bit seed and on their place in its stream, and on nothing
else. So a batch of clients draws what the clients would draw one by one, in any order, in blocks
of any size, and a draw can be made again instead of being stored. The n-th word of a stream is a
hash of seed + n golden ratios (SplitMix64: Steele, Lea and Flood, OOPSLA 2014), mixed twice.
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
    """One stream of random 64-bit words a client: ``seeds`` (n,) uint64."""

    seeds: NDArray[np.uint64]

    @classmethod
    def spawn(cls, rng: np.random.Generator, count: int) -> Self:
        """Streams for ``count`` clients: one word of ``rng`` each, in order.

        So spawning for clients one after the other gives the same streams as spawning for all.
        """
        return cls(rng.integers(0, _ONES, size=count, dtype=np.uint64, endpoint=True))

    def __len__(self) -> int:
        return len(self.seeds)

    def take(self, clients: NDArray[np.integer[Any]]) -> Streams:
        """The streams of these clients."""
        return Streams(self.seeds[clients])

    def after(self, count: int | NDArray[np.integer[Any]]) -> Streams:
        """The same streams from word ``count`` on, one for all or (n,) each."""
        with np.errstate(over="ignore"):
            return Streams(self.seeds + np.asarray(count, np.uint64) * _GOLDEN)

    def fold_in(self, purpose: int) -> Streams:
        """Independent streams of the same clients, another for each ``purpose`` >= 0."""
        with np.errstate(over="ignore"):
            mark = _mix(np.array([np.uint64(purpose)]) * _GOLDEN + _SECOND)
        return Streams(_mix(_mix(self.seeds ^ mark)))

    def random_bits(self, count: int, start: int = 0) -> NDArray[np.uint64]:
        """Words ``start`` to ``start + count`` of every stream: (n, count)."""
        with np.errstate(over="ignore"):
            steps = np.arange(start + 1, start + count + 1, dtype=np.uint64) * _GOLDEN
            return _mix(_mix(self.seeds[:, None] + steps))

    def uniform(self, count: int, start: int = 0) -> NDArray[np.float64]:
        """Uniform in (0, 1), ends excluded: (n, count)."""
        return _uniform(self.random_bits(count, start))

    def laplace(self, count: int, start: int = 0) -> NDArray[np.float64]:
        """Laplace of scale 1: (n, count). Tails reach 36.7 scales."""
        return _laplace(self.random_bits(count, start))

    def normal(self, count: int, start: int = 0) -> NDArray[np.float64]:
        """Standard normal: (n, count), by inversion."""
        from scipy.special import ndtri

        return np.asarray(ndtri(self.uniform(count, start)))

    def laplace_at(
        self, clients: NDArray[np.integer[Any]], places: NDArray[np.integer[Any]]
    ) -> NDArray[np.float64]:
        """Laplace draws at single places of single clients' streams, broadcast together."""
        return _laplace(self._words_at(clients, places))

    def normal_at(
        self, clients: NDArray[np.integer[Any]], places: NDArray[np.integer[Any]]
    ) -> NDArray[np.float64]:
        """Standard normal draws at single places of single clients' streams."""
        from scipy.special import ndtri

        return np.asarray(ndtri(_uniform(self._words_at(clients, places))))

    def _words_at(
        self, clients: NDArray[np.integer[Any]], places: NDArray[np.integer[Any]]
    ) -> NDArray[np.uint64]:
        with np.errstate(over="ignore"):
            steps = (places.astype(np.uint64) + np.uint64(1)) * _GOLDEN
            return _mix(_mix(self.seeds[clients] + steps))


def _mix(word: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finalizer of SplitMix64: a bijection of 64-bit words."""
    with np.errstate(over="ignore"):
        word = (word ^ (word >> np.uint64(30))) * _FIRST
        word = (word ^ (word >> np.uint64(27))) * _SECOND
        return word ^ (word >> np.uint64(31))


def _uniform(words: NDArray[np.uint64]) -> NDArray[np.float64]:
    return (words >> np.uint64(12)).astype(np.float64) * (2 * _HALF) + _HALF


def _laplace(words: NDArray[np.uint64]) -> NDArray[np.float64]:
    """The lowest bit is the sign, the upper 52 give an exponential by inversion."""
    size = np.log(_uniform(words))
    return np.where(words & np.uint64(1), size, -size)
