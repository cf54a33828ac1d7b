"""Bit flipping: every bit is kept or flipped by itself, with rates that depend on the bit."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from fedrec_auditor.accountants.events import dp
from fedrec_auditor.accountants.statements.bound import check_epsilon
from fedrec_auditor.targets.mechanisms.base import Domain, Size, WorstCase
from fedrec_auditor.targets.mechanisms.parts.entries import OneBit
from fedrec_auditor.targets.mechanisms.parts.exact_draws import unit
from fedrec_auditor.targets.settings import Probability
from fedrec_auditor.targets.streams import Streams

_BYTE = 256


@dataclass(frozen=True, slots=True)
class BitFlip(OneBit):
    """P(1 | 1) = p and P(1 | 0) = q: epsilon = max(|ln(p/q)|, |ln((1-q)/(1-p))|) a bit.

    Both ratios count. That p/q <= e^eps alone bounds epsilon is a trap (Gao et al. 2020, section
    on asymmetric flipping, eq. 11: p = 1, q = e^-eps): there a reported 0 proves a 0, and epsilon
    is infinite. With q = p e^-eps the other ratio is within e^eps only if p <= e^eps/(1+e^eps).

    Elementwise over arrays of any shape: every entry is an input of its own, in {0, 1}. Whole
    vectors in which every bit may differ are a ``Product`` of this. Outputs are bool.
    """

    p: Probability
    q: Probability

    @classmethod
    def symmetric(cls, epsilon: float) -> Self:
        """p = 1 - q = e^eps/(1+e^eps): randomized response, exactly epsilon-private a bit.

        p is rounded down, so that the epsilon of the numbers stored is never above ``epsilon``
        (by 1e-12 below at 10, 1e-7 at 20; doubles next to 1 allow no epsilon above 36.7).
        """
        p = min(float(expit(check_epsilon(epsilon))), 1.0 - 2.0**-53)
        while p > 0.5 and math.log(p) - math.log(1.0 - p) > epsilon:
            p = math.nextafter(p, 0.0)
        return cls(p, 1.0 - p)

    @classmethod
    def asymmetric(cls, epsilon: float) -> Self:
        """p = 1, q = e^-eps (Gao et al. 2020, eq. 11): claimed epsilon, in truth infinite."""
        return cls(1.0, math.exp(-check_epsilon(epsilon)))

    @property
    def epsilon(self) -> float:
        """The exact epsilon of one bit; infinite if an output is possible for one bit only."""
        return max(_log_ratio(self.p, self.q), _log_ratio(1.0 - self.p, 1.0 - self.q))

    def randomize(self, value: ArrayLike, rng: Generator, size: Size = None) -> NDArray[Any]:
        """Flip bits, bool of shape ``size``: one random byte a bit, a double where it ties.

        Exact but for the last step: a rate that is no multiple of 2^-61 is rounded up to one, so
        the probability of a sample differs from p or q by less than 4.4e-19.
        """
        bits = self._bits(value)
        shape = bits.shape if size is None else size
        bits = Domain(low=0, high=1).spread(bits, shape).ravel()
        words = rng.integers(0, 2**64, size=-(-len(bits) // 8), dtype=np.uint64)
        noise = words.view(np.uint8)[: len(bits)]
        return self._flip(bits, noise, lambda ties: rng.random(len(ties))).reshape(shape)

    def by_streams(self, value: ArrayLike, streams: Streams) -> NDArray[np.bool_]:
        """Flip every client's bits (n, M) with draws of its own stream: (n, M).

        The distribution of ``randomize``. A client's j-th bit takes byte j of its stream and, where
        that ties, a word of a stream aside: so its output depends on its bits and its seed alone.
        Memory beyond the result is about 3 bytes a bit: give clients in blocks.
        """
        bits = self._bits(value)
        width = bits.shape[1]
        noise = streams.random_bits(-(-width // 8)).astype("<u8", copy=False).view(np.uint8)

        def rest(ties: NDArray[np.intp]) -> NDArray[np.float64]:
            clients, counts = np.unique(ties // width, return_counts=True)
            if not counts.size:
                return np.empty(0)
            words = streams.take(clients).fold_in(1).random_bits(int(counts.max()))
            return unit(words[np.arange(words.shape[1]) < counts[:, None]])

        return self._flip(bits.ravel(), noise[:, :width].ravel(), rest).reshape(bits.shape)

    def log_prob(self, output: ArrayLike, value: ArrayLike) -> NDArray[np.float64]:
        """ln P(output | value), broadcast; -inf for an output that cannot be."""
        out, bits = np.asarray(output), self._bits(value)
        one = np.where(bits, _log(self.p), _log(self.q))
        zero = np.where(bits, _log1m(self.p), _log1m(self.q))
        return np.where(out == 1, one, np.where(out == 0, zero, -np.inf))

    def worst_case(self) -> WorstCase:
        """Both bits, both outputs: all there is."""
        return WorstCase(
            inputs=np.array([0, 1]),
            outputs=np.array([0, 1]),
            exhaustive=True,
            name_input="true bit {}".format,
            name_output="uploaded bit {}".format,
        )

    def event(self) -> dp.DpEvent:
        """Randomized response over two buckets if p + q = 1 exactly, otherwise our own leaf.

        The sum of doubles will not do: 1 + 1e-17 rounds to 1, and a bit that proves a 0 would be
        charged as one that is only likely to.
        """
        if math.fsum((self.p, self.q, -1.0)) == 0.0:
            return dp.RandomizedResponseDpEvent(2.0 * min(self.p, self.q), 2)
        return dp.BitFlipDpEvent(self.p, self.q)

    def _flip(
        self,
        bits: NDArray[np.bool_],
        noise: NDArray[np.uint8],
        rest: Callable[[NDArray[np.intp]], NDArray[np.float64]],
    ) -> NDArray[np.bool_]:
        """Flip ``bits`` (n,) by a byte each, and by ``rest`` of the positions where a byte ties."""
        p_byte, q_byte = int(self.p * _BYTE), int(self.q * _BYTE)
        # Bitwise selection: several times faster than np.where on booleans.
        out = _select(bits, noise < p_byte, noise < q_byte)
        ties = np.flatnonzero(_select(bits, noise == p_byte, noise == q_byte))
        share = np.where(bits[ties], self.p * _BYTE - p_byte, self.q * _BYTE - q_byte)
        out[ties] = rest(ties) < share
        return out

    def _bits(self, value: ArrayLike) -> NDArray[np.bool_]:
        array = np.asarray(value)
        return array if array.dtype == bool else self.domain.check(array).astype(bool)


def _select(
    where: NDArray[np.bool_], one: NDArray[np.bool_], zero: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    return zero ^ (where & (one ^ zero))


def _log(rate: float) -> float:
    return math.log(rate) if rate > 0 else -math.inf


def _log1m(rate: float) -> float:
    return math.log1p(-rate) if rate < 1 else -math.inf


def _log_ratio(a: float, b: float) -> float:
    if a == b:
        return 0.0
    return abs(math.log(a) - math.log(b)) if min(a, b) > 0 else math.inf
