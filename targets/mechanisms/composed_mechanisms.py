"""Mechanisms made of other mechanisms: clipped, repeated, side by side, shuffled, averaged."""

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
    """A mechanism whose input is any real number, clipped to the inner mechanism's interval.

    Every entry is clipped to [low, high] of the inner mechanism; epsilon is the inner epsilon.

    Clipping yields every input of the inner domain and no other, so that the worst pair is the
    inner one, and epsilon does not change. It must come before the noise, and its bounds must not
    depend on the data: clipping after the noise does not bound the input. "Laplace noise with
    clipping" (eq. 12 of Zhang et al.; FedNews) is ``Clipped(Product(Laplace(...), d))``: its
    epsilon is that of one coordinate, while the user sends all d coordinates and spends d epsilon.

    Inputs are any real numbers, (*batch, *inner domain shape). A mechanism that knows its privacy
    curve is also a ``PrivacyCurve`` when clipped.
    """

    mechanism: Mechanism

    def __new__(cls, mechanism: Mechanism) -> Self:
        """Returns a ``PrivacyCurve`` if ``mechanism`` is one."""
        kind = _Curved if isinstance(mechanism, PrivacyCurve) else Clipped
        # ``replace`` may call one kind to make the other, which Python would not initialise.
        made = object.__new__(kind) if issubclass(kind, cls) else kind(mechanism)
        return made  # type: ignore[return-value]

    def __reduce__(self) -> tuple[type[Clipped], tuple[Mechanism]]:
        return Clipped, (self.mechanism,)

    def __post_init__(self) -> None:
        inner = self.mechanism.domain
        if inner.values is not None or math.inf in (-inner.low, inner.high):
            raise InputError(
                f"Expected a mechanism on an interval, got one on {inner}. Do not clip its input."
            )

    @property
    def domain(self) -> Domain:
        """All real numbers; numbers out of range are clipped."""
        return replace(self.mechanism.domain, low=-math.inf, high=math.inf)

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Shape of one output of the inner mechanism."""
        return self.mechanism.output_shape

    def randomize(self, value: ArrayLike, rng: Generator, size: Size = None) -> NDArray[Any]:
        """Clips ``value`` and randomizes it by the inner mechanism."""
        return self.mechanism.randomize(self._clip(value), rng, size)

    def log_prob(self, output: ArrayLike, value: ArrayLike) -> NDArray[np.float64]:
        """Log-probability of the inner mechanism at the clipped value."""
        return self.mechanism.log_prob(output, self._clip(value))

    def worst_case(self) -> WorstCase | None:
        """The inner worst case, because every input is clipped to the inner domain."""
        return self.mechanism.worst_case()

    def event(self) -> dp.DpEvent:
        """Event of the inner mechanism, which clipping cannot worsen."""
        return self.mechanism.event()

    def _clip(self, value: ArrayLike) -> NDArray[Any]:
        inner = self.mechanism.domain
        return np.asarray(np.clip(self.domain.check(value), inner.low, inner.high))


class _Curved(Clipped):
    """A clipped mechanism whose inner mechanism knows its privacy curve."""

    __slots__ = ()
    __qualname__ = "Clipped"

    def delta(self, epsilon: float) -> float:
        """Privacy curve of the inner mechanism."""
        assert isinstance(self.mechanism, PrivacyCurve)
        return self.mechanism.delta(epsilon)


@dataclass(frozen=True, slots=True)
class Product(Uses):
    """A vector whose entries are randomized independently and may all differ.

    ``count`` independent uses on ``count`` inputs: epsilon adds up, and exactly so.

    The epsilons add up at delta 0. At delta > 0 the worst pair may have the worst pair of one entry
    in some places, and the same pair exchanged in others: two bits (0, 1) against (1, 0). Normal
    noise adds up in squares, and the product then knows its privacy curve: its mu is sqrt(count)
    times the mu of one entry.

    Two vectors may differ in every entry, so that the worst pair of one entry can stand in all
    entries. Inputs are (*batch, count, *inner domain), outputs (*size, count, *inner output).
    """

    @property
    def domain(self) -> Domain:
        """The inner domain, ``count`` times."""
        inner = self.mechanism.domain
        return replace(inner, shape=(self.count, *inner.shape))

    def _lift(self, values: NDArray[Any]) -> NDArray[Any]:
        return values

    def worst_case(self) -> WorstCase | None:
        """The worst case of one entry, with ``count`` times its copies, each copy its own group."""
        one = Uses.worst_case(self)
        return None if one is None else replace(one, groups=one.groups * self.count)


class _NormalProduct(Product, NormalUses):
    """Entries with normal noise."""

    __slots__ = ()
    __qualname__ = "Product"


Product.kinds = (Product, _NormalProduct)


@dataclass(frozen=True, slots=True)
class Repeated(Uses):
    """Fresh reports on the same input, as if a client uploads in every round.

    The epsilons of ``count`` reports add up; the sum is attained, because all reports may be the
    same worst output. For normal noise the privacy curve is known: its mu is sqrt(count) times the
    mu of one report.

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
    """Number of positive reports among the shuffled binary reports of ``n_users`` users.

    The number of +B among all shuffled reports, if all other users hold -1.

    Each user sends +B with probability (1 + v (e^eps - 1)/(e^eps + 1))/2 for the entry v in [-1,
    1]. The value is one user's entry, and the output, in 0 ... n, is the number of +B reports. A
    shuffle of binary reports reveals only that number. It is also sufficient for one-coordinate
    reports of users at the corners, because all users draw coordinates from the same distribution.
    The other users are fixed: a lower bound of epsilon for this distribution is also one for the
    shuffle, but an upper bound is not.
    """

    epsilon: AboveZero
    n_users: Whole

    def randomize(self, value: ArrayLike, rng: Generator, size: Size = None) -> NDArray[Any]:
        """Draws the numbers of +B reports, int64 of shape ``size``."""
        values = self.domain.spread(value, size)
        others = rng.binomial(self.n_users - 1, expit(-self.epsilon), size=values.shape)
        return np.asarray(others + self._report.bits(values, rng))

    def log_prob(self, output: ArrayLike, value: ArrayLike) -> NDArray[np.float64]:
        """ln P(number of +B | value), broadcast; -inf for an impossible number."""
        count, vector = np.asarray(output), self.domain.check(value)[..., None]
        return np.asarray(
            np.logaddexp(
                self._report.log_prob([0, 1], vector) + self._others(count - 1),
                self._report.log_prob([0, 0], vector) + self._others(count),
            )
        )

    def worst_case(self) -> WorstCase:
        """The two corners, and every number of +B; among millions of users only likely numbers.

        Numbers less likely than e^-745, the smallest double, are left out (by Bernstein's
        inequality). Both ends are included, because they have the largest log-ratio.
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
        """One shuffle of one binary report per user."""
        return dp.ShuffledDpEvent(self.epsilon, self.n_users, binary=True)

    def _others(self, count: NDArray[Any]) -> NDArray[np.float64]:
        """ln P(number of +B of the other users); for millions of users from the probability itself.

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
        """The likely numbers of +B, and 0 and n."""
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
    """Server's noisy average of clipped updates, and the noisy share of unclipped clients.

    A round of DP-PrivRec: step * (average of updates clipped to S) and the share b, noisy.

    One of ``batch`` = M clients is replaced. The other clients are fixed (at update 0, without
    loss, because they only shift the output). The sensitivity of the average is 2S/M. That of the
    share is 1/M, where the paper states 2/M: b lies in {0, 1}. With the paper's noise, sigma_Delta
    = (2S/M) z / sqrt(1 - h) and sigma_b = (2/M) z / sqrt(h), the two distances in units of noise
    are step sqrt(1 - h)/z and sqrt(h)/(2z). An update of norm S and an opposite one beyond S attain
    both. So

        mu = sqrt(step^2 (1 - h) + h/4) / z,

    where the paper's doubled sensitivity of the share gives 1/z at step 1, on the safe side. The
    paper is wrong in three places:

    * Line 9 adds the noise after the step alpha3, so that a larger step is not accounted for: the
    multiplier is no longer z once step^2 (1 - h) + h/4 > 1.
    * The proof's z1 = 1/(z sqrt(1 - h)), z2 = 1/(z sqrt(h)) make a joint multiplier of 1/z, which
    equals the algorithm's z only at z = 1.
    * Lines 22-23 compute b after clipping, where it is 1 for every update (``counts_clipped``):
    then the share is not informative, mu = step sqrt(1 - h)/z, and S drifts through zero.

    The server adds the noise: its broadcast shows these outputs, while the server itself sees every
    update without noise. Source: Wang et al. 2021 (VLDB J.), Algorithm 2 lines 8-11 and 22-23,
    Theorem 1, section 2.3.4. Inputs are raw updates, (*batch, dimension); an output is [average,
    share], dimension + 1 long.
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
        """Distance of the worst pair in standard deviations, for both queries together."""
        share = 0.0 if self.counts_clipped else 0.25 * self.balance
        return math.sqrt(self.step**2 * (1.0 - self.balance) + share) / self.multiplier

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Shape (dimension + 1,): the noisy average and the noisy share."""
        return (self.dimension + 1,)

    @property
    def noise_scale(self) -> NDArray[np.float64]:
        """Standard deviations: sigma_Delta for entries of the average, sigma_b for the share."""
        scale = np.full(self.output_shape, self.clip / math.sqrt(1.0 - self.balance))
        scale[-1] = 1.0 / math.sqrt(self.balance)
        return np.asarray(scale * (2.0 * self.multiplier / self.batch))

    def center(self, value: NDArray[Any]) -> NDArray[np.float64]:
        """The vector [step * clipped update / M, (M - 1 + b) / M]."""
        clipped = clip_norm(value, self.clip)
        kept = np.all(clipped == value, axis=-1) | self.counts_clipped
        share = (self.batch - 1 + kept) / self.batch
        return np.concatenate([self.step * clipped / self.batch, share[..., None]], axis=-1)


@dataclass(frozen=True, slots=True)
class Identity(OneBit):
    """No protection: the upload is the value itself.

    The output is the input: epsilon is infinite, as any output names its input.

    The mechanism acts elementwise on arrays of bits, which suffice to show this. Outputs are bool.
    """

    def randomize(self, value: ArrayLike, rng: Generator, size: Size = None) -> NDArray[Any]:
        """The value, bool of shape ``size``; ``rng`` is not used."""
        return self.domain.spread(value, size).astype(bool)

    def log_prob(self, output: ArrayLike, value: ArrayLike) -> NDArray[np.float64]:
        """0 if output and value agree, else -inf."""
        return np.where(np.asarray(output) == self.domain.check(value), 0.0, -np.inf)

    def worst_case(self) -> WorstCase:
        """Both bits and both outputs, which are all of them."""
        return WorstCase(
            inputs=np.array([0, 1]),
            outputs=np.array([0, 1]),
            exhaustive=True,
            name_input="true entry {}".format,
            name_output="uploaded entry {}".format,
        )

    def event(self) -> dp.DpEvent:
        """A non-private event, because the output is the input."""
        return dp.NonPrivateDpEvent()
