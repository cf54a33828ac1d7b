"""Mechanisms built from other mechanisms: input clipping, repetition, shuffling and averages."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated, Any, Self

import numpy as np
import scipy
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.events import dp
from fedrec_auditor.targets.mechanisms.base import Domain, Mechanism, PrivacyCurve, Shape, WorstCase
from fedrec_auditor.targets.mechanisms.parts import bases
from fedrec_auditor.targets.mechanisms.report_mechanisms import OneCoordinate
from fedrec_auditor.targets.settings import Count, PositiveFloat, Range, check_settings


@dataclass(frozen=True, slots=True)
class Clipped:
    """Clips every input entry to the range of an inner mechanism, then applies that mechanism.

    ``mechanism``: the inner mechanism, whose domain is the clipping interval [low, high].

    Inputs are any real numbers, shape (*batch, *inner domain shape). Epsilon is that of the inner
    mechanism. The mechanism has a privacy curve (``PrivacyCurve``) if the inner mechanism has one.

    Example: "Laplace noise with clipping" (equation 12 of the FedRec paper by Zhang, Yuan and Yin)
    is ``Clipped(Product(Laplace(...), d))``. The paper claims the epsilon of one coordinate. The
    epsilon of an upload is d times as large.
    """

    # Clipped inputs fill exactly the inner domain, so that the worst pair of inputs stays the same.
    # Clipping must come before the noise, and its bounds must not depend on the data. Clipping
    # after the noise does not bound the input. A user sends all d coordinates.

    mechanism: Mechanism

    def __new__(cls, mechanism: Mechanism) -> Self:
        """Creates a ``Clipped``, of a subclass with a privacy curve if ``mechanism`` has one."""
        kind = _ClippedCurve if isinstance(mechanism, PrivacyCurve) else Clipped
        # ``replace`` may call one class to make an instance of the other class, which Python
        # would not initialise.
        made = object.__new__(kind) if issubclass(kind, cls) else kind(mechanism)
        return made  # type: ignore[return-value]

    def __reduce__(self) -> tuple[type[Clipped], tuple[Mechanism]]:
        return Clipped, (self.mechanism,)

    def __post_init__(self) -> None:
        inner = self.mechanism.domain
        if inner.values is not None or math.inf in (-inner.low, inner.high):
            raise InputError(
                f"Expected mechanism with a finite input interval, got {inner}. Do without Clipped."
            )

    @property
    def domain(self) -> Domain:
        """Set of inputs: all real arrays of the inner mechanism's input shape."""
        return replace(self.mechanism.domain, low=-math.inf, high=math.inf)

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Shape of one output of the inner mechanism."""
        return self.mechanism.output_shape

    def randomize(self, value: ArrayLike, rng: Generator, size: Shape = None) -> NDArray[Any]:
        """Clips ``value`` and draws outputs of the inner mechanism."""
        return self.mechanism.randomize(self._clip(value), rng, size)

    def log_prob(self, output: ArrayLike, value: ArrayLike) -> NDArray[np.float64]:
        """Returns ln P(``output`` | clipped ``value``) of the inner mechanism."""
        return self.mechanism.log_prob(output, self._clip(value))

    def worst_case(self) -> WorstCase | None:
        """Returns inputs and outputs of the inner mechanism that attain its largest privacy loss.

        None if the privacy loss is unbounded.
        """
        # They are also the worst case with clipping, because every input of the inner mechanism is
        # the clipped value of some input.
        return self.mechanism.worst_case()

    def event(self) -> dp.DpEvent:
        """Returns the accounting event of the inner mechanism; clipping does not change epsilon."""
        return self.mechanism.event()

    def _clip(self, value: ArrayLike) -> NDArray[Any]:
        inner = self.mechanism.domain
        return np.asarray(np.clip(self.domain.check(value), inner.low, inner.high))


class _ClippedCurve(Clipped):
    __slots__ = ()
    __qualname__ = "Clipped"

    def delta(self, epsilon: float) -> float:
        """Returns the delta of the inner mechanism at ``epsilon``."""
        assert isinstance(self.mechanism, PrivacyCurve)
        return self.mechanism.delta(epsilon)


@dataclass(frozen=True, slots=True)
class Product(bases.Repetition):
    """Randomizes each entry of a vector independently by the same mechanism.

    ``mechanism``: the randomizer of one entry.
    ``count``: number of entries of the vector.

    Two vectors may differ in every entry. At delta 0, the epsilon of a vector is exactly ``count``
    times the epsilon of one entry. Gaussian noise also has a privacy curve: mu, the sensitivity in
    standard deviations, is sqrt(count) times the mu of one entry.

    Inputs have shape (*batch, count, *inner domain), outputs (*size, count, *inner output).
    """

    # Each entry may differ by the worst pair of one entry: the two inputs with the largest privacy
    # loss. At delta > 0, the worst pair of vectors may have the worst pair of one entry in
    # different orders at different positions. An example for two bits is (0, 1) against (1, 0).

    @property
    def domain(self) -> Domain:
        """Set of inputs: arrays of ``count`` inputs of the inner mechanism."""
        inner = self.mechanism.domain
        return replace(inner, shape=(self.count, *inner.shape))

    def _insert_axis(self, values: NDArray[Any]) -> NDArray[Any]:
        return values

    def worst_case(self) -> WorstCase | None:
        """Returns inputs and outputs of one entry at which its privacy loss is largest.

        Each entry is a separate copy and group (``WorstCase``), so that ``n_copies`` and
        ``n_groups`` are multiplied by ``count``. None if the privacy loss of one entry is
        unbounded.
        """
        # Each entry is a separate use of the inner mechanism, and may have a different pair of
        # inputs.
        one = bases.Repetition.worst_case(self)
        return None if one is None else replace(one, n_groups=one.n_groups * self.count)


class _NormalProduct(Product, bases.GaussianRepetition):
    """A product whose entries have Gaussian noise."""

    __slots__ = ()
    __qualname__ = "Product"


Product.concrete_classes = (Product, _NormalProduct)


@dataclass(frozen=True, slots=True)
class Repeated(bases.Repetition):
    """Applies a mechanism several times, independently, to the same input, as in several rounds.

    ``mechanism``: the mechanism that is applied.
    ``count``: number of applications.

    At delta 0, the epsilon of all outputs together is exactly ``count`` times the epsilon of one
    output. Gaussian noise also has a privacy curve: mu, the sensitivity in standard deviations, is
    sqrt(count) times the mu of one output.

    Inputs have shape (*batch, *inner domain), outputs (*size, count, *inner output).
    """

    # Every output may be the one with the largest privacy loss.

    @property
    def domain(self) -> Domain:
        """Set of inputs of the inner mechanism."""
        return self.mechanism.domain

    def _insert_axis(self, values: NDArray[Any]) -> NDArray[Any]:
        return np.expand_dims(values, values.ndim - len(self.domain.shape))


class _NormalRepeated(Repeated, bases.GaussianRepetition):
    """Repeated outputs with Gaussian noise."""

    __slots__ = ()
    __qualname__ = "Repeated"


Repeated.concrete_classes = (Repeated, _NormalRepeated)


_MANY = 10**6
# Minus the logarithm of a probability that is 0 in doubles.
_RARE = 750.0


@dataclass(frozen=True, slots=True)
class Shuffled(bases.SignedUnitMechanism):
    """Shuffle of one randomized bit (report) per user, which reveals only the number of bits 1.

    ``epsilon``: epsilon of one user's report, before the shuffle.
    ``n_users``: number of users.

    The input v is one user's number in [-1, 1]. All other users have the number -1. A report is
    positive if its bit is 1. A user with the number v sends a positive report with probability

        (1 + v (e^eps - 1)/(e^eps + 1))/2,    eps = ``epsilon``.

    The output is the number of positive reports, an integer from 0 to ``n_users``.

    A lower bound on this mechanism's epsilon also holds if the other users have any other numbers.
    An upper bound does not.
    """

    # A shuffle of binary reports reveals only the number of positive reports. This number is also a
    # sufficient statistic for shuffled reports of one random coordinate of a vector
    # (``OneCoordinate``), if the entries of each user's vector are all 1 or all -1. All users then
    # draw coordinates from the same distribution. This class fixes the entries of the other users,
    # so that upper bounds do not carry over.

    epsilon: PositiveFloat
    n_users: Count

    def randomize(self, value: ArrayLike, rng: Generator, size: Shape = None) -> NDArray[Any]:
        """Draws the number of positive reports of all users, once for each number in ``value``.

        ``value``: numbers v of the one user, an array of any shape.
        ``size``: shape of the result, to which ``value`` broadcasts; None for the shape of
            ``value``.
        """
        values = self.domain.expand_batch(value, size)
        others = rng.binomial(self.n_users - 1, expit(-self.epsilon), size=values.shape)
        return np.asarray(others + self._report.draw_bits(values, rng))

    def log_prob(self, output: ArrayLike, value: ArrayLike) -> NDArray[np.float64]:
        """Returns ln P(``output`` | ``value``), or -inf for an impossible output.

        ``output``: number of positive reports of all users.
        ``value``: one user's number in [-1, 1].
        """
        count, vector = np.asarray(output), self.domain.check(value)[..., None]
        return np.asarray(
            np.logaddexp(
                self._report.log_prob([0, 1], vector) + self._others_log_prob(count - 1),
                self._report.log_prob([0, 0], vector) + self._others_log_prob(count),
            )
        )

    def worst_case(self) -> WorstCase:
        """Returns inputs and outputs that attain the largest privacy loss.

        The inputs are the numbers 1 and -1. The outputs are all numbers of positive reports. Above
        a million users, extremely improbable outputs are left out, except 0 and ``n_users``.
        """
        # Numbers with a probability below e^-745, the smallest double, are left out (by Bernstein's
        # inequality). The numbers 0 and ``n_users`` are always included, because they have the
        # largest privacy loss.
        outputs = np.arange(self.n_users + 1) if self.n_users <= _MANY else self._list_likely()
        return WorstCase(
            inputs=np.array([1.0, -1.0]),
            outputs=outputs,
            exhaustive=True,
            name_input="the value of one user is {:+g}, all other values are -1".format,
            name_output=f"{{}} of {self.n_users} reports are positive".format,
        )

    def event(self) -> dp.DpEvent:
        """Returns the accounting event of one shuffle of one binary report per user."""
        return dp.ShuffledDpEvent(self.epsilon, self.n_users, binary=True)

    def _others_log_prob(self, count: NDArray[Any]) -> NDArray[np.float64]:
        """Returns the log-probability that ``count`` of the other users send a positive report."""
        others = scipy.stats.binom(self.n_users - 1, expit(-self.epsilon))
        if self.n_users <= _MANY:
            return np.asarray(others.logpmf(count))
        # Above a million users, the result is the logarithm of the computed probability, because
        # differences of log-factorials lose too many digits.
        probability = others.pmf(count)
        rare = probability < 1e-300
        found = np.log(np.where(rare, 1.0, probability))
        found[rare] = others.logpmf(count[rare])
        return np.asarray(found)

    def _list_likely(self) -> NDArray[np.int64]:
        """Returns the numbers of positive reports that are not extremely improbable, and 0 and
        ``n_users``.
        """
        others = scipy.stats.binom(self.n_users - 1, expit(-self.epsilon))
        width = math.sqrt(2.0 * _RARE * others.var()) + _RARE
        low = max(1, math.floor(others.mean() - width))
        high = min(self.n_users - 1, math.ceil(others.mean() + width) + 1)
        return np.concatenate([[0], np.arange(low, high + 1), [self.n_users]])

    @property
    def _report(self) -> OneCoordinate:
        return OneCoordinate(self.epsilon, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateAverage(bases.VectorMechanism, bases.NormalNoise):
    """Releases a noisy average of clipped updates, and a noisy share of unclipped updates.

    One round of DP-PrivRec releases two values:

    - the average of the clipped updates, times the server's step size;
    - the share of updates that clipping does not change.

    ``multiplier``: noise multiplier z of the paper.
    ``clip``: clipping norm S.
    ``batch``: number M of clients that send an update in the round.
    ``dimension``: number of entries of an update.
    ``balance``: fraction h of the privacy budget that the release of the share uses.
    ``step``: step size alpha3 of the server.
    ``counts_clipped``: whether the share counts updates after clipping, as in the paper's
        algorithm; every update then counts as unclipped.

    The neighbouring inputs differ in the update of one of the M clients; the other updates are 0.
    The mechanism is Gaussian, with the sensitivity in standard deviations

        mu = sqrt(step^2 (1 - h) + h/4) / z,    or step sqrt(1 - h) / z if ``counts_clipped``.

    The paper claims mu = 1/z, which is an upper bound at step 1.

    The adversaries are clients, who see the outputs in the broadcast. The server sees every update
    without noise. Inputs are updates before clipping, shape (*batch, dimension). An output is
    [average, share], of length dimension + 1.

    Source: Wang et al. 2021 (VLDB J.), Algorithm 2 lines 8-11 and 22-23, Theorem 1, section 2.3.4.
    """

    # The intended budget is mu^2 = 1/z^2. The paper states a sensitivity of 2/M for the share,
    # which is twice the true one. The paper is wrong in three places:
    # - Line 9 of Algorithm 2 adds the noise after the step alpha3, but the accounting ignores
    #   alpha3. The true multiplier is below z if step^2 (1 - h) + h/4 > 1.
    # - The proof's z1 = 1/(z sqrt(1 - h)) and z2 = 1/(z sqrt(h)) make a joint multiplier of 1/z.
    #   The algorithm's multiplier is z, which is equal only at z = 1.
    # - Lines 22-23 compute b after clipping, where it is 1 for every update (``counts_clipped``).
    #   The share is then not informative.
    # Derivation of mu. The other updates are fixed at 0 without loss of generality, because they
    # only shift the output.
    # - The average has the sensitivity 2S/M times ``step``. With the paper's noise, sigma_Delta =
    #   (2S/M) z / sqrt(1 - h), this is step sqrt(1 - h)/z standard deviations.
    # - The share has the sensitivity 1/M, because a client counts as b = 0 if its update is
    #   clipped, else as b = 1. With the paper's noise, sigma_b = (2/M) z / sqrt(h), this is
    #   sqrt(h)/(2z) standard deviations.
    # Both are attained if an update of norm S is replaced by a longer update in the opposite
    # direction. With ``counts_clipped``, the server lowers S whenever the share exceeds its target,
    # so that S falls in every round, at last below zero.

    multiplier: PositiveFloat
    clip: PositiveFloat
    batch: Count
    dimension: Count
    balance: Annotated[float, Range("(0, 1)", "in (0, 1); VectorGaussian has no share")]
    step: PositiveFloat = 1.0
    counts_clipped: bool = False

    def __post_init__(self) -> None:
        check_settings(self)
        bases.check_mu(self.mu, "a multiplier")

    @property
    def mu(self) -> float:
        """Sensitivity of the released pair (average, share), in standard deviations of its noise.

        The average is that of the clipped updates, times ``step``. The share is the fraction of the
        updates that clipping does not change.
        """
        share = 0.0 if self.counts_clipped else 0.25 * self.balance
        return math.sqrt(self.step**2 * (1.0 - self.balance) + share) / self.multiplier

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Shape (dimension + 1,): the noisy average, then the noisy share of unclipped updates."""
        return (self.dimension + 1,)

    @property
    def noise_scale(self) -> NDArray[np.float64]:
        """Standard deviations of the noise, shape (dimension + 1,).

        The first ``dimension`` entries are for the average of the updates. The last entry is for
        the share of unclipped updates.
        """
        scale = np.full(self.output_shape, self.clip / math.sqrt(1.0 - self.balance))
        scale[-1] = 1.0 / math.sqrt(self.balance)
        return np.asarray(scale * (2.0 * self.multiplier / self.batch))

    def compute_noiseless(self, value: NDArray[Any]) -> NDArray[np.float64]:
        """Returns the output without noise, for the update ``value`` of one client.

        The output is [step * clipped update / M, (M - 1 + b) / M] with M = ``batch``; the other
        updates are 0. b is 1 if clipping does not change the update, or with ``counts_clipped``,
        else 0.
        """
        clipped = bases.clip_norm(value, self.clip)
        kept = np.all(clipped == value, axis=-1) | self.counts_clipped
        share = (self.batch - 1 + kept) / self.batch
        return np.concatenate([self.step * clipped / self.batch, share[..., None]], axis=-1)


@dataclass(frozen=True, slots=True)
class Identity(bases.BitMechanism):
    """Outputs the input bit itself, without any protection, so that epsilon is infinite.

    The mechanism acts elementwise on arrays of bits, and outputs are bool.
    """

    def randomize(self, value: ArrayLike, rng: Generator, size: Shape = None) -> NDArray[Any]:
        """Returns the input bits as bool of shape ``size``; ``rng`` is not used."""
        return self.domain.expand_batch(value, size).astype(bool)

    def log_prob(self, output: ArrayLike, value: ArrayLike) -> NDArray[np.float64]:
        """Returns 0 if ``output`` equals ``value``, else -inf."""
        return np.where(np.asarray(output) == self.domain.check(value), 0.0, -np.inf)

    def worst_case(self) -> WorstCase:
        """Returns the inputs 0, 1 and the outputs 0, 1, which attain the largest privacy loss."""
        return WorstCase(
            inputs=np.array([0, 1]),
            outputs=np.array([0, 1]),
            exhaustive=True,
            name_input="an entry whose true value is {}".format,
            name_output="the uploaded value is {}".format,
        )

    def event(self) -> dp.DpEvent:
        """Returns the accounting event of a mechanism with infinite epsilon."""
        return dp.NonPrivateDpEvent()
