"""Mechanisms made of others: clipped, repeated, side by side, shuffled, averaged, or none."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated, Any, Self

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray
from scipy import stats
from scipy.special import expit

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.events import dp
from fedrec_auditor.targets.mechanisms.base import Domain, Mechanism, PrivacyCurve, Size, WorstCase
from fedrec_auditor.targets.mechanisms.parts.additive import Normal, RealVector, check_mu, clip_norm
from fedrec_auditor.targets.mechanisms.parts.uses import NormalUses, OneBit, UnitEntry, Uses
from fedrec_auditor.targets.mechanisms.report_mechanisms import OneCoordinate
from fedrec_auditor.targets.settings import AboveZero, Range, Whole, check


@dataclass(frozen=True, slots=True)
class Clipped:
    """Any real input, clipped to what the mechanism inside accepts.

    Every entry is clipped to [low, high] of the mechanism inside, whose epsilon it has.

    Clipping reaches every input of the inner domain and no other, so that the worst pair is the
    inner one and nothing is lost or gained. It must come before the noise and its bounds must not
    depend on the data: clipped after the noise, an input is not bounded at all. "Laplace noise
    with clipping" (eq. 12 of Zhang et al.; FedNews) is ``Clipped(Product(Laplace(...), d))``:
    private per coordinate at epsilon, while the user sends all d of them and spends d epsilon.

    Inputs are any real numbers, (*batch, *inner domain shape). A mechanism that knows its curve
    is still ``PrivacyCurve`` when clipped.
    """

    mechanism: Mechanism

    def __new__(cls, mechanism: Mechanism) -> Self:
        """One that is ``PrivacyCurve`` if ``mechanism`` is."""
        kind = _Curved if isinstance(mechanism, PrivacyCurve) else Clipped
        # ``replace`` may ask one kind for the other, and Python would not initialise it.
        made = object.__new__(kind) if issubclass(kind, cls) else kind(mechanism)
        return made  # type: ignore[return-value]

    def __reduce__(self) -> tuple[type[Clipped], tuple[Mechanism]]:
        return Clipped, (self.mechanism,)

    def __post_init__(self) -> None:
        inner = self.mechanism.domain
        if inner.values is not None or math.inf in (-inner.low, inner.high):
            raise InputError(
                f"Expected a mechanism on an interval, got one on {inner}. Clip nothing else."
            )

    @property
    def domain(self) -> Domain:
        """Every real number: values out of range are clipped."""
        return replace(self.mechanism.domain, low=-math.inf, high=math.inf)

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Shape of one output of the inner mechanism."""
        return self.mechanism.output_shape

    def randomize(self, value: ArrayLike, rng: Generator, size: Size = None) -> NDArray[Any]:
        """Clip ``value`` and randomize it by the inner mechanism."""
        return self.mechanism.randomize(self._clip(value), rng, size)

    def log_prob(self, output: ArrayLike, value: ArrayLike) -> NDArray[np.float64]:
        """The inner distribution of the clipped value."""
        return self.mechanism.log_prob(output, self._clip(value))

    def worst_case(self) -> WorstCase | None:
        """The inner sets: every input is clipped to one of that domain."""
        return self.mechanism.worst_case()

    def event(self) -> dp.DpEvent:
        """The event of the inner mechanism, which clipping cannot worsen."""
        return self.mechanism.event()

    def _clip(self, value: ArrayLike) -> NDArray[Any]:
        inner = self.mechanism.domain
        return np.asarray(np.clip(self.domain.check(value), inner.low, inner.high))


class _Curved(Clipped):
    """A clipped mechanism whose inner one knows its curve."""

    __slots__ = ()
    __qualname__ = "Clipped"

    def delta(self, epsilon: float) -> float:
        """The privacy curve of the inner mechanism."""
        assert isinstance(self.mechanism, PrivacyCurve)
        return self.mechanism.delta(epsilon)


@dataclass(frozen=True, slots=True)
class Product(Uses):
    """A vector whose entries are randomized independently, all of which may differ.

    ``count`` independent uses on ``count`` inputs: epsilon adds up, and exactly so.

    That is at delta 0. At delta > 0 the worst pair may hold the worst pair of one entry one way
    round in some entries and the other way round in others: two bits in (0, 1) against (1, 0).
    Normal noise adds up in squares, and the product knows its curve: mu is sqrt(count) times that
    of one entry.

    Two vectors may differ in every entry, so the worst pair of one entry can stand in all of
    them. Inputs are (*batch, count, *inner domain), outputs (*size, count, *inner output).
    """

    @property
    def domain(self) -> Domain:
        """The inner domain, ``count`` times."""
        inner = self.mechanism.domain
        return replace(inner, shape=(self.count, *inner.shape))

    def _lift(self, values: NDArray[Any]) -> NDArray[Any]:
        return values

    def worst_case(self) -> WorstCase | None:
        """The sets of one entry, with ``count`` times its copies, each in a group of its own."""
        one = Uses.worst_case(self)
        return None if one is None else replace(one, groups=one.groups * self.count)


class _NormalProduct(Product, NormalUses):
    """Entries with normal noise."""

    __slots__ = ()
    __qualname__ = "Product"


Product.kinds = (Product, _NormalProduct)


@dataclass(frozen=True, slots=True)
class Repeated(Uses):
    """Fresh reports on the same input: what an upload in every round amounts to.

    ``count`` fresh uses on one input: epsilon adds up, and exactly so.

    The same output may come ``count`` times. Normal noise adds up in squares, and the repetition
    knows its curve: mu is sqrt(count) times that of one report.

    Inputs are (*batch, *inner domain), outputs (*size, count, *inner output).
    """

    @property
    def domain(self) -> Domain:
        """Inputs of the inner mechanism."""
        return self.mechanism.domain

    def _lift(self, values: NDArray[Any]) -> NDArray[Any]:
        return np.expand_dims(values, values.ndim - len(self.domain.shape))


class _NormalRepeated(Repeated, NormalUses):
    """Reports with normal noise."""

    __slots__ = ()
    __qualname__ = "Repeated"


Repeated.kinds = (Repeated, _NormalRepeated)


_MANY = 10**6
# Minus the logarithm of a probability that is 0 in doubles.
_RARE = 750.0


@dataclass(frozen=True, slots=True)
class Shuffled(UnitEntry):
    """One binary report among those of other users, seen after a shuffle.

    How many of ``n_users`` shuffled reports are +B, when all others hold -1.

    Each user sends +B with probability (1 + v (e^eps - 1)/(e^eps + 1))/2 for the entry v in
    [-1, 1]. The value is one user's entry and the output, in 0 ... n, the number of +B reports: all
    that a shuffle leaves of binary reports, and all that matters of one-coordinate reports of
    users at the corners (the coordinates are drawn alike by everybody). The others are fixed: a
    lower bound on epsilon for this distribution is one for the shuffle, but an upper bound is not.
    """

    epsilon: AboveZero
    n_users: Whole

    def randomize(self, value: ArrayLike, rng: Generator, size: Size = None) -> NDArray[Any]:
        """Draw the numbers of +B reports, int64 of shape ``size``."""
        values = self.domain.spread(value, size)
        others = rng.binomial(self.n_users - 1, expit(-self.epsilon), size=values.shape)
        return np.asarray(others + self._report.bits(values, rng))

    def log_prob(self, output: ArrayLike, value: ArrayLike) -> NDArray[np.float64]:
        """ln P(number of +B | value), broadcast; -inf for a number that cannot be."""
        count, vector = np.asarray(output), self.domain.check(value)[..., None]
        return np.asarray(
            np.logaddexp(
                self._report.log_prob([0, 1], vector) + self._others(count - 1),
                self._report.log_prob([0, 0], vector) + self._others(count),
            )
        )

    def worst_case(self) -> WorstCase:
        """The two corners, every number; of millions none that is less likely than a double is.

        That is e^-745, by Bernstein's inequality. Both ends are kept, as they tell the most.
        """
        outputs = np.arange(self.n_users + 1) if self.n_users <= _MANY else self._likely()
        return WorstCase(
            inputs=np.array([1.0, -1.0]),
            outputs=outputs,
            exhaustive=True,
            name_input="one user at {:+g}, all others at -1".format,
            name_output=f"{{}} of {self.n_users} reports are +B".format,
        )

    def event(self) -> dp.DpEvent:
        """One shuffle of a binary report a user."""
        return dp.ShuffledDpEvent(self.epsilon, self.n_users, binary=True)

    def _others(self, count: NDArray[Any]) -> NDArray[np.float64]:
        """ln P(number of +B of the others); among millions the logarithm of the probability.

        Differences of log-factorials would lose too many digits there.
        """
        others = stats.binom(self.n_users - 1, expit(-self.epsilon))
        if self.n_users <= _MANY:
            return np.asarray(others.logpmf(count))
        probability = others.pmf(count)
        rare = probability < 1e-300
        found = np.log(np.where(rare, 1.0, probability))
        found[rare] = others.logpmf(count[rare])
        return np.asarray(found)

    def _likely(self) -> NDArray[np.int64]:
        """The bulk of the numbers of +B, and 0 and n."""
        others = stats.binom(self.n_users - 1, expit(-self.epsilon))
        width = math.sqrt(2.0 * _RARE * others.var()) + _RARE
        low = max(1, math.floor(others.mean() - width))
        high = min(self.n_users - 1, math.ceil(others.mean() + width) + 1)
        return np.concatenate([[0], np.arange(low, high + 1), [self.n_users]])

    @property
    def _report(self) -> OneCoordinate:
        return OneCoordinate(self.epsilon, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateAverage(RealVector, Normal):
    """The server's average of clipped updates, and the share of clients that were not clipped.

    A round of DP-PrivRec: step * (average of updates clipped to S) and the share b, noisy.

    One of ``batch`` = M clients is replaced, the others are fixed (at update 0, without loss: they
    only shift the output). The sensitivity of the average is 2S/M, and of the share 1/M, where
    the paper says 2/M: b lies in {0, 1}. With its noise, sigma_Delta = (2S/M) z / sqrt(1 - h) and
    sigma_b = (2/M) z / sqrt(h), the two distances in units of noise are step sqrt(1 - h)/z and
    sqrt(h)/(2z), attained together by an update of norm S and an opposite one beyond S. So

        mu = sqrt(step^2 (1 - h) + h/4) / z,

    where the paper's doubled sensitivity of the share gives 1/z at step 1, on the safe side. The
    paper is wrong in three places:

    * line 9 adds the noise after the step alpha3, so that a larger step is not paid for: the
      multiplier z is not kept once step^2 (1 - h) + h/4 > 1.
    * the proof's z1 = 1/(z sqrt(1 - h)), z2 = 1/(z sqrt(h)) make a joint multiplier of 1/z, which
      is the algorithm's z at z = 1 only.
    * lines 22-23 compute b after clipping, where it is 1 whatever the update (``counts_clipped``):
      the share says nothing, mu = step sqrt(1 - h)/z, and S drifts through zero.

    The server adds the noise: this is what its broadcast shows, while the server itself sees every
    update as it is. Source: Wang et al. 2021 (VLDB J.), Algorithm 2 lines 8-11 and 22-23,
    Theorem 1, section 2.3.4.

    Inputs are raw updates, (*batch, dimension); an output is [average, share], dimension + 1 long.
    """

    multiplier: AboveZero
    clip: AboveZero
    batch: Whole
    dimension: Whole
    balance: Annotated[float, Range("(0, 1)", "in (0, 1): VectorGaussian releases no share")]
    step: AboveZero = 1.0
    counts_clipped: bool = False

    def __post_init__(self) -> None:
        check(self)
        check_mu(self.mu, "a multiplier")

    @property
    def mu(self) -> float:
        """Distance of the worst pair, both queries together."""
        share = 0.0 if self.counts_clipped else 0.25 * self.balance
        return math.sqrt(self.step**2 * (1.0 - self.balance) + share) / self.multiplier

    @property
    def output_shape(self) -> tuple[int, ...]:
        """The noisy average (dimension,) and the noisy share."""
        return (self.dimension + 1,)

    @property
    def noise_scale(self) -> NDArray[np.float64]:
        """sigma_Delta for every entry of the average, sigma_b for the share."""
        scale = np.full(self.output_shape, self.clip / math.sqrt(1.0 - self.balance))
        scale[-1] = 1.0 / math.sqrt(self.balance)
        return np.asarray(scale * (2.0 * self.multiplier / self.batch))

    def center(self, value: NDArray[Any]) -> NDArray[np.float64]:
        """[step * clipped update / M, (M - 1 + b) / M]."""
        clipped = clip_norm(value, self.clip)
        kept = np.all(clipped == value, axis=-1) | self.counts_clipped
        share = (self.batch - 1 + kept) / self.batch
        return np.concatenate([self.step * clipped / self.batch, share[..., None]], axis=-1)


@dataclass(frozen=True, slots=True)
class Identity(OneBit):
    """No protection at all: the upload is the value itself.

    The output is the input: epsilon is infinite, as any output names its input.

    Elementwise over arrays of bits, which are enough to show it. Outputs are bool.
    """

    def randomize(self, value: ArrayLike, rng: Generator, size: Size = None) -> NDArray[Any]:
        """The value, bool of shape ``size``; ``rng`` is not drawn from."""
        return self.domain.spread(value, size).astype(bool)

    def log_prob(self, output: ArrayLike, value: ArrayLike) -> NDArray[np.float64]:
        """0 where output and value agree, -inf elsewhere."""
        return np.where(np.asarray(output) == self.domain.check(value), 0.0, -np.inf)

    def worst_case(self) -> WorstCase:
        """Both bits, both outputs: all there is."""
        return WorstCase(
            inputs=np.array([0, 1]),
            outputs=np.array([0, 1]),
            exhaustive=True,
            name_input="true entry {}".format,
            name_output="uploaded entry {}".format,
        )

    def event(self) -> dp.DpEvent:
        """A non-private event: the output is the input."""
        return dp.NonPrivateDpEvent()
