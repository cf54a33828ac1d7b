"""Mechanisms with few or bounded outputs: randomized response, ternary and piecewise reports."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Self

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.events import dp
from fedrec_auditor.accountants.statements import check_epsilon
from fedrec_auditor.targets import settings
from fedrec_auditor.targets.mechanisms.base import Domain, Shape, WorstCase
from fedrec_auditor.targets.mechanisms.parts import bases
from fedrec_auditor.targets.mechanisms.parts.bases import BitMechanism, EpsilonOrZero, PureDpMixin
from fedrec_auditor.targets.mechanisms.parts.grid import convert_to_uniform, draw_bernoulli
from fedrec_auditor.targets.settings import Checked, Count, Positive, Probability, Range
from fedrec_auditor.targets.streams import Streams

_BYTE = 256


@dataclass(frozen=True, slots=True)
class BitFlip(BitMechanism):
    """Randomized response on bits, with separate flip rates for the bits 0 and 1.

    ``p``: probability P(1 | 1) that the bit 1 is reported as 1.
    ``q``: probability P(1 | 0) that the bit 0 is reported as 1.

    The epsilon of a bit is max(|ln(p/q)|, |ln((1-q)/(1-p))|). A common error is to bound only p/q
    by e^eps, as in Gao et al. 2020, eq. 11: p = 1, q = e^-eps. A reported 0 then proves that the
    bit is 0, so that epsilon is infinite.

    The mechanism acts elementwise on arrays of any shape, and outputs are bool. Every entry is a
    separate input, 0 or 1. For a vector in which every bit may differ, use a ``Product`` of this
    mechanism.
    """

    # With q = p e^-eps, the ratio (1-q)/(1-p) is at most e^eps only if p <= e^eps/(1+e^eps).

    p: Probability
    q: Probability

    @classmethod
    def symmetric(cls, epsilon: float) -> Self:
        """Creates randomized response with equal flip rates: P(1 | 1) = P(0 | 0) = e^eps/(1+e^eps).

        eps is ``epsilon``. P(1 | 1) is rounded down to a double below 1, so that the true epsilon
        of a bit is at most ``epsilon`` and at most 36.7.
        """
        # The epsilon of the result is lower by 1e-12 at epsilon 10, and by 1e-7 at epsilon 20. No
        # result has an epsilon above 36.7, because P(1 | 1) is a double below 1.
        p = min(float(expit(check_epsilon(epsilon))), 1.0 - 2.0**-53)
        while p > 0.5 and math.log(p) - math.log(1.0 - p) > epsilon:
            p = math.nextafter(p, 0.0)
        return cls(p, 1.0 - p)

    @classmethod
    def asymmetric(cls, epsilon: float) -> Self:
        """Creates the bit flips of Gao et al. 2020, eq. 11: P(1 | 1) = 1 and P(1 | 0) = e^-epsilon.

        The paper claims ``epsilon``. The true epsilon is infinite: a reported 0 proves the bit 0.
        """
        return cls(1.0, math.exp(-check_epsilon(epsilon)))

    @property
    def epsilon(self) -> float:
        """Exact epsilon of one bit; infinite if some output is possible for only one input."""
        return max(_log_ratio(self.p, self.q), _log_ratio(1.0 - self.p, 1.0 - self.q))

    def randomize(self, value: ArrayLike, rng: Generator, size: Shape = None) -> NDArray[Any]:
        """Draws the reported bits, bool of shape ``size``.

        The probabilities of the outputs differ from those that ``p`` and ``q`` state by less than
        4.4e-19.
        """
        # One random byte per bit decides whether the bit is flipped. If the byte does not decide, a
        # random double does. Rates are rounded up to a multiple of 2^-61.
        bits = self._to_bits(value)
        shape = bits.shape if size is None else size
        bits = Domain(low=0, high=1).expand_batch(bits, shape).ravel()
        words = rng.integers(0, 2**64, size=-(-len(bits) // 8), dtype=np.uint64)
        noise = words.view(np.uint8)[: len(bits)]
        return self._flip_bits(bits, noise, lambda ties: rng.random(len(ties))).reshape(shape)

    def flip_by_streams(self, value: ArrayLike, streams: Streams) -> NDArray[np.bool_]:
        """Draws the reported bits of n clients with one random stream per client, bool (n, M).

        ``value``: the true bits, M per client, shape (n, M).
        ``streams``: one random stream per client.

        The distribution is that of ``randomize``. A client's output depends only on its bits and
        seed.
        """
        # Memory beyond the result is about 3 bytes per bit, so that callers pass clients in blocks.
        # Byte j of a client's stream decides whether the client's j-th bit is flipped. If the byte
        # does not decide, a word of a separate stream does.
        bits = self._to_bits(value)
        width = bits.shape[1]
        noise = streams.draw_words(-(-width // 8)).astype("<u8", copy=False).view(np.uint8)

        def draw(undecided_positions: NDArray[np.intp]) -> NDArray[np.float64]:
            """Draws a uniform number in [0, 1) for each bit whose random byte does not decide the
            flip.

            ``undecided_positions``: ascending positions of these bits in the flattened (n, M)
                array.
            """
            clients, counts = np.unique(undecided_positions // width, return_counts=True)
            if not counts.size:
                return np.empty(0)
            words = streams.take(clients).derive(1).draw_words(int(counts.max()))
            return convert_to_uniform(words[np.arange(words.shape[1]) < counts[:, None]])

        return self._flip_bits(bits.ravel(), noise[:, :width].ravel(), draw).reshape(bits.shape)

    def log_prob(self, output: ArrayLike, value: ArrayLike) -> NDArray[np.float64]:
        """Returns ln P(output | value); -inf for an impossible output."""
        out, bits = np.asarray(output), self._to_bits(value)
        one = np.where(bits, _log(self.p), _log(self.q))
        zero = np.where(bits, _log1m(self.p), _log1m(self.q))
        return np.where(out == 1, one, np.where(out == 0, zero, -np.inf))

    def worst_case(self) -> WorstCase:
        """Returns the inputs 0, 1 and the outputs 0, 1, which attain the largest privacy loss."""
        return WorstCase(
            inputs=np.array([0, 1]),
            outputs=np.array([0, 1]),
            exhaustive=True,
            name_input="a bit whose true value is {}".format,
            name_output="the uploaded bit is {}".format,
        )

    def event(self) -> dp.DpEvent:
        """Returns the accounting event of a flip with P(1 | 1) = ``p`` and P(1 | 0) = ``q``.

        - ``p`` + ``q`` = 1: randomized response.
        - Otherwise: ``BitFlipDpEvent``, an asymmetric flip.
        """
        # The sum is not rounded, because 1 + 1e-17 rounds to 1: a bit that proves a 0 would then be
        # accounted for as a bit that makes a 0 only likely.
        if math.fsum((self.p, self.q, -1.0)) == 0.0:
            return dp.RandomizedResponseDpEvent(2.0 * min(self.p, self.q), 2)
        return dp.BitFlipDpEvent(self.p, self.q)

    def _flip_bits(
        self,
        bits: NDArray[np.bool_],
        noise: NDArray[np.uint8],
        rest: Callable[[NDArray[np.intp]], NDArray[np.float64]],
    ) -> NDArray[np.bool_]:
        """Flips ``bits`` (n,) at random, with one byte of ``noise`` per bit.

        ``rest`` draws uniform numbers for the positions of bits that the byte does not decide.
        """
        p_byte, q_byte = int(self.p * _BYTE), int(self.q * _BYTE)
        # Bitwise selection: several times faster than np.where on booleans.
        out = _select(bits, noise < p_byte, noise < q_byte)
        ties = np.flatnonzero(_select(bits, noise == p_byte, noise == q_byte))
        share = np.where(bits[ties], self.p * _BYTE - p_byte, self.q * _BYTE - q_byte)
        out[ties] = rest(ties) < share
        return out

    def _to_bits(self, value: ArrayLike) -> NDArray[np.bool_]:
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


@dataclass(frozen=True, slots=True)
class OneCoordinate(Checked):
    """Draws one coordinate of a vector uniformly, and reports it by randomized response.

    ``epsilon``: exact epsilon of a report, for every input vector.
    ``dimension``: length of the vector.

    A report is the index c of the coordinate, and a bit. For the input vector v, with entries in
    [-1, 1] (see ``clip_entries``), the bit is 1 with probability

        (v_c (e^eps - 1) + e^eps + 1) / (2 e^eps + 2),    eps = ``epsilon``.

    The server's estimate of v is +B (bit 1) or -B (bit 0) at coordinate c, and 0 elsewhere. B is
    (e^eps + 1)/(e^eps - 1) times ``dimension``. The mean of the estimate is v.

    Inputs have shape (*batch, dimension); an output is int64 [coordinate, bit].

    Source: Minto et al. 2021, Algorithm 1 and Theorem 3 (after Nguyen et al. 2016).
    """

    # For entries beyond (e^eps+1)/(e^eps-1), the value of the formula is not a probability.

    epsilon: EpsilonOrZero
    dimension: Count

    @property
    def magnitude(self) -> float:
        """Size B of the server's estimate from one report: +B or -B at the reported coordinate.

        The estimate has zeros at all other coordinates, and its mean is the input vector. B is
        infinite at epsilon 0.
        """
        if self.epsilon == 0:
            return math.inf
        return self.dimension / math.tanh(self.epsilon / 2)

    @property
    def domain(self) -> Domain:
        """Set of inputs: vectors of length ``dimension`` with entries in [-1, 1]."""
        return Domain(low=-1, high=1, shape=(self.dimension,))

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Shape (2,): the index of the reported coordinate, and its randomized bit."""
        return (2,)

    def clip_entries(self, value: ArrayLike) -> NDArray[np.float64]:
        """Clips every entry to [-1, 1], the range that ``randomize`` and ``draw_bits`` accept."""
        return np.clip(np.asarray(value, dtype=np.float64), -1.0, 1.0)

    def draw_coordinates(self, rng: Generator, size: tuple[int, ...]) -> NDArray[np.int64]:
        """Draws the index of each report's coordinate uniformly, int64 of shape ``size``.

        The caller then needs to compute only the entries at these coordinates.
        """
        return rng.integers(0, self.dimension, size=size)

    def draw_bits(self, entries: ArrayLike, rng: Generator) -> NDArray[np.bool_]:
        """Draws one randomized bit per vector entry in ``entries``, bool of the same shape.

        Raises InputError for entries outside [-1, 1].
        """
        shape = np.shape(entries)
        return self.compute_bits(entries, flip=rng.random(shape), corner=rng.random(shape))

    def map_to_coordinates(self, draw: NDArray[np.float64]) -> NDArray[np.int64]:
        """Maps uniform draws from [0, 1) to coordinate indices, each with probability 1/dimension.

        The probabilities are exact up to 2^-53.
        """
        return (draw * self.dimension).astype(np.int64)

    def compute_bits(
        self, entries: ArrayLike, *, flip: NDArray[np.float64], corner: NDArray[np.float64]
    ) -> NDArray[np.bool_]:
        """Computes the randomized bits of vector entries from uniform draws ``flip``, ``corner``.

        ``entries``: the vector entries, in [-1, 1].
        ``corner``: one draw in [0, 1) per entry, which rounds the entry to -1 or 1.
        ``flip``: one draw in [0, 1) per entry, which decides whether the resulting bit is flipped.
        """
        share = (1.0 + Domain(low=-1, high=1).check(entries)) / 2.0
        # The flip rate is rounded up to a multiple of 2^-53.
        # Bits are flipped at the smaller rate. A rate close to 1 would round to 1 above epsilon 37,
        # and a bit would then prove to which of -1 and 1 the entry was rounded.
        return np.asarray((corner < share) ^ (flip < expit(-self.epsilon)))

    def randomize(self, value: ArrayLike, rng: Generator, size: Shape = None) -> NDArray[Any]:
        """Draws reports [coordinate, bit], int64 of shape (*size, 2)."""
        vectors = self.domain.expand_batch(value, size)
        index = self.draw_coordinates(rng, vectors.shape[:-1])
        bits = self.draw_bits(np.take_along_axis(vectors, index[..., None], axis=-1)[..., 0], rng)
        return np.stack([index, bits], axis=-1)

    def log_prob(self, output: ArrayLike, value: ArrayLike) -> NDArray[np.float64]:
        """Returns ln P([coordinate, bit] | value); -inf for an impossible output."""
        out, vectors = np.asarray(output), self.domain.check(value)
        shape = np.broadcast_shapes(out.shape[:-1], vectors.shape[:-1])
        index, bit = np.broadcast_to(out[..., 0], shape), np.broadcast_to(out[..., 1], shape)
        possible = (index >= 0) & (index < self.dimension) & ((bit == 0) | (bit == 1))
        chosen = np.where(possible, index, 0).astype(np.int64)[..., None]
        vectors = np.broadcast_to(vectors, (*shape, self.dimension))
        at = np.take_along_axis(vectors, chosen, axis=-1)[..., 0]
        rate = self._compute_rate(np.where(bit == 1, at, -at))
        return np.where(possible, np.log(rate) - math.log(self.dimension), -np.inf)

    def worst_case(self) -> WorstCase:
        """Returns inputs and outputs that attain the largest privacy loss.

        The inputs are the vectors with all entries +1 and all entries -1. The outputs are all
        reports.
        """
        inputs = np.repeat([[1.0], [-1.0]], self.dimension, axis=1)
        coordinate, bit = np.divmod(np.arange(2 * self.dimension), 2)
        return WorstCase(
            inputs=inputs,
            outputs=np.stack([coordinate, bit], axis=-1),
            exhaustive=True,
            name_input=lambda vector: f"a gradient of {len(vector)} entries of {vector[0]:+g}",
            name_output=lambda sent: f"the report has sign {'-+'[sent[1]]} for entry {sent[0]}",
        )

    def event(self) -> dp.DpEvent:
        """Returns the accounting event: randomized response on one bit.

        The coordinate does not count, because its distribution does not depend on the input.
        """
        return dp.RandomizedResponseDpEvent(2.0 * float(expit(-self.epsilon)), 2)

    def _compute_rate(self, entries: ArrayLike) -> NDArray[np.float64]:
        """Returns P(bit = 1) for each of ``entries``.

        The probability is computed as a mixture of those at the entries 1 and -1, which loses no
        digits at large epsilon.
        """
        share = (1.0 + np.asarray(entries, dtype=np.float64)) / 2.0
        return np.asarray(share * expit(self.epsilon) + (1.0 - share) * expit(-self.epsilon))


@dataclass(frozen=True, slots=True)
class Ternary(bases.NumberMechanism):
    """Reports a number x as +r, 0 or -r at random, such that the mean of the report is x.

    ``bound``: bound B of the input; x is in [-B, B].
    ``size``: absolute value r of a report other than 0, at least B.
    ``share``: 0 for the published mechanism; otherwise the probability that a report is not 0,
        equal for every x and above B/r.

    The probabilities of +r and -r are

    - for ``share`` 0: max(x, 0)/r and max(-x, 0)/r. No finite epsilon holds at delta 0. The
      smallest delta is B/r, at every epsilon.
    - for ``share`` above B/r: share/2 + x/(2r) and share/2 - x/(2r). Epsilon is ln((share +
      B/r)/(share - B/r)).

    The mechanism acts elementwise on arrays of any shape; outputs are float64.

    Source: ternary quantization (Wen et al., TernGrad, 2017), which the released code of
    VerticalGNN uses as a mechanism (entry 37 of docs/claims.csv). The variant with a ``share`` was
    designed for this package.
    """

    # If ``share`` is 0, a report other than 0 proves the sign of x. Such a report has a probability
    # of at most B/r, which is therefore the smallest delta.

    bound: Positive
    size: Positive
    share: Probability = 0.0

    def __post_init__(self) -> None:
        settings.check_settings(self)
        if self.size < self.bound:
            raise InputError(
                f"Expected size >= bound={self.bound:g}, got size={self.size:g}. "
                "Give a larger size, so that no probability exceeds 1."
            )
        if 0.0 < self.share <= self.min_delta:
            raise InputError(
                f"Expected share = 0, or share > bound / size = {self.min_delta:g}, got "
                f"share={self.share:g}. Give a larger share, so that every report is possible."
            )

    @property
    def min_delta(self) -> float:
        """Smallest possible delta, at every epsilon, of the published mechanism (``share`` 0).

        The result is ``bound`` / ``size``: the largest probability of a report other than 0, which
        proves the sign of the input.
        """
        return self.bound / self.size

    @property
    def epsilon(self) -> float:
        """Exact epsilon of one reported number at delta 0.

        Infinite for the published mechanism (``share`` 0), in which a report other than 0 proves
        the sign of the input.
        """
        if not self.share:
            return math.inf
        return math.log((self.share + self.min_delta) / (self.share - self.min_delta))

    @property
    def domain(self) -> Domain:
        """Set of inputs: the interval [-bound, bound]."""
        return Domain(low=-self.bound, high=self.bound)

    def randomize(self, value: ArrayLike, rng: Generator, size: Shape = None) -> NDArray[Any]:
        """Draws reports, float64 of shape ``size``; each is -self.size, 0 or self.size."""
        values = self.domain.expand_batch(value, size)
        return self.quantize(values, rng.random(values.shape))

    def quantize(self, values: NDArray[Any], uniform: NDArray[np.float64]) -> NDArray[np.float64]:
        """Computes the reports of numbers from given uniform draws, in the shape of ``values``.

        ``values``: the numbers, in [-bound, bound].
        ``uniform``: one draw in (0, 1) per number.
        """
        plus, nonzero = self._get_chances(values)
        return np.where(uniform < plus, self.size, np.where(uniform < nonzero, -self.size, 0.0))

    def log_prob(self, output: ArrayLike, value: ArrayLike) -> NDArray[np.float64]:
        """Returns ln P(``output`` | ``value``); -inf for an impossible output."""
        out = np.asarray(output, dtype=np.float64)
        plus, nonzero = self._get_chances(self.domain.check(value))
        zero = np.where(out == 0.0, 1.0 - nonzero, 0.0)
        chance = np.where(out == self.size, plus, np.where(out == -self.size, nonzero - plus, zero))
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(chance))

    def worst_case(self) -> WorstCase:
        """Returns inputs and outputs that attain the largest privacy loss.

        The inputs are ``bound`` and -``bound``. The outputs are all that are possible: ``size``, 0
        and -``size``.
        """
        inputs, outputs = [self.bound, -self.bound], [self.size, 0.0, -self.size]
        return WorstCase(inputs=np.array(inputs), outputs=np.array(outputs), exhaustive=True)

    def event(self) -> dp.DpEvent:
        """Returns the accounting event: with probability ``share``, a randomized sign is released.

        If ``share`` is 0, the sign of the input itself is released with probability bound/size.
        """
        # The event is exact for the worst pair of inputs, ``bound`` and -``bound``. If ``share`` is
        # 0, bound/size is the delta of this pair at every epsilon. No pair has a larger delta.
        nonzero, noise = self.share or self.min_delta, 0.0
        if self.share:
            noise = 1.0 - self.min_delta / self.share
        return dp.RevealedSamplingDpEvent(nonzero, dp.RandomizedResponseDpEvent(noise, 2))

    def _get_chances(self, values: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Returns the probability of the report +size, and that of any report other than 0."""
        shift = np.asarray(values, dtype=np.float64) / self.size
        if self.share:
            return (self.share + shift) / 2.0, np.full_like(shift, self.share)
        return np.maximum(shift, 0.0), np.abs(shift)


_CELLS = 2**48
# Allowed values of epsilon; above 40 the cells of ``Piecewise`` no longer resolve the distribution.
PiecewiseEpsilon = Annotated[float, Range("[1e-9, 40]")]


@dataclass(frozen=True, slots=True)
class Piecewise(PureDpMixin, bases.SignedUnitMechanism):
    """Reports a number in [-1, 1] as a random number that is likely to be near it.

    ``epsilon``: epsilon of one number, called eps below.

    The output for an input x lies in [-C, C], with C = (e^(eps/2) + 1)/(e^(eps/2) - 1):

    - with probability e^(-eps/2), uniformly in [-C, C];
    - otherwise uniformly in the interval [l, l + C - 1] around x, with l = (C + 1) x/2 - (C - 1)/2.

    The mean output is x. The density in the interval is e^eps times the density elsewhere.

    The published algorithm outputs any double, which can reveal the input. In this class [-C, C]
    consists of 2^48 cells, and the output is the middle of a cell. The true epsilon never exceeds
    ``epsilon``.

    The mechanism acts elementwise on arrays of any shape; outputs are float64.

    Source: Wang et al. 2019 (ICDE), Algorithm 2.
    """

    # l is rounded to the edge of a cell. Every output is then possible for every input, with the
    # probability that the density gives. The mean output is x up to this rounding, 2^-48 C. The
    # property ``noise_probability`` is rounded up, so that the true epsilon never exceeds
    # ``epsilon``.

    epsilon: PiecewiseEpsilon

    @property
    def noise_probability(self) -> float:
        """Probability with which the output is drawn independently of the input: e^(-epsilon/2),
        rounded up.
        """
        return bases.compute_input_ignore_prob(self.epsilon, _CELLS, self._n_near)

    @property
    def magnitude(self) -> float:
        """Bound C of the outputs, which are in [-C, C].

        Up to rounding, C is (e^(epsilon/2) + 1)/(e^(epsilon/2) - 1).
        """
        return _CELLS / (_CELLS - self._n_near) / (1.0 - self.noise_probability)

    def randomize(self, value: ArrayLike, rng: Generator, size: Shape = None) -> NDArray[Any]:
        """Draws outputs with exact probabilities, float64 of shape ``size``.

        An output is the middle of one of 2^48 cells of the range.
        """
        first = self._find_first_cell(self.domain.expand_batch(value, size))
        anywhere = draw_bernoulli(self.noise_probability, rng, first.shape)
        near = first + rng.integers(0, self._n_near, first.shape)
        return self._find_middle(np.where(anywhere, rng.integers(0, _CELLS, first.shape), near))

    def log_prob(self, output: ArrayLike, value: ArrayLike) -> NDArray[np.float64]:
        """Returns the log-density of ``output`` given ``value``; -inf outside [-``magnitude``,
        ``magnitude``].
        """
        cell = (np.asarray(output, dtype=np.float64) / self.magnitude + 1.0) * (_CELLS / 2)
        first = self._find_first_cell(self.domain.check(value))
        near = (cell >= first) & (cell <= first + self._n_near)
        low, width = self.noise_probability / _CELLS, 2.0 * self.magnitude / _CELLS
        high = low + (1.0 - self.noise_probability) / self._n_near
        inside = (cell >= 0) & (cell <= _CELLS)
        density = np.where(near, math.log(high / width), math.log(low / width))
        return np.where(inside, density, -np.inf)

    def delta(self, epsilon: float) -> float:
        """Returns the exact delta at ``epsilon``; the worst pair of inputs is -1 and 1."""
        # Each input has an interval [l, r] of likely outputs, on which the output has the density
        # h. The intervals of -1 and 1 are disjoint, and delta is h (r - l) (1 - e^(epsilon -
        # self.epsilon)). No pair of inputs has a larger delta: if the intervals of two inputs
        # overlap, only outputs in one interval and outside the other contribute.
        near = 1.0 - self.noise_probability * (1.0 - self._n_near / _CELLS)
        own = math.log(near / self._n_near) - math.log(self.noise_probability / _CELLS)
        return near * -math.expm1(min(epsilon - own, 0.0))

    def worst_case(self) -> WorstCase:
        """Returns inputs and outputs that attain the largest privacy loss.

        The inputs are -1 and 1. The outputs are one point of each of the three intervals on which
        both densities are constant.
        """
        reach = self._n_near / 2
        middles = np.array([reach, _CELLS / 2, _CELLS - reach])
        return WorstCase(inputs=np.array([-1.0, 1.0]), outputs=self._find_middle(middles))

    @property
    def _n_near(self) -> int:
        """Number of cells of the interval [l, r]: the share 1/(e^(epsilon/2) + 1) of all cells."""
        return round(_CELLS / (math.exp(self.epsilon / 2.0) + 1.0))

    def _find_first_cell(self, value: NDArray[Any]) -> NDArray[np.int64]:
        """Returns the index of the first cell of the interval [l, r], for each input."""
        return np.asarray(np.rint((_CELLS - self._n_near) * ((1.0 + value) / 2.0)), dtype=np.int64)

    def _find_middle(self, cell: NDArray[Any]) -> NDArray[np.float64]:
        return np.asarray((2.0 * cell + (1.0 - _CELLS)) / _CELLS * self.magnitude)
