"""Base classes of mechanisms: additive noise, repeated use, and sets of inputs and outputs."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.events import dp
from fedrec_auditor.accountants.losses.divergences import compute_gaussian_delta
from fedrec_auditor.accountants.statements import check_epsilon
from fedrec_auditor.targets.mechanisms.base import Domain, Mechanism, Shape, WorstCase
from fedrec_auditor.targets.settings import Checked, Count, Range

# ln(sqrt(2 pi)), a term of the log-density of the normal distribution.
LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)


class AdditiveNoise(Checked, ABC):
    """Base class of mechanisms that output a function of the input plus independent noise.

    A subclass defines the function (``compute_noiseless``) and the scale of the noise
    (``noise_scale``). Probabilities are those of noise over the real numbers. Outputs are doubles,
    whose low-order bits can reveal more about the input (Mironov 2012). No bound of this package
    covers that leak.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def domain(self) -> Domain:
        """Set of inputs that the mechanism accepts."""

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Shape of one output; by default the shape of an input."""
        return self.domain.shape

    @property
    @abstractmethod
    def noise_scale(self) -> float | NDArray[np.float64]:
        """Scale of the noise: one number, or an array that broadcasts to ``output_shape``."""

    def compute_noiseless(self, value: NDArray[Any]) -> NDArray[Any]:
        """Returns the outputs before noise, (*batch, *output_shape); by default the inputs."""
        return value

    @abstractmethod
    def _draw_unit_noise(self, rng: Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
        """Draws noise of scale 1."""

    @abstractmethod
    def _log_density(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns the log-density of noise of scale 1."""

    def randomize(self, value: ArrayLike, rng: Generator, size: Shape = None) -> NDArray[Any]:
        """Draws outputs with independent noise, float64 of shape (*size, *output_shape)."""
        spread = self.domain.expand_batch(value, size)
        batch = spread.shape[: spread.ndim - len(self.domain.shape)]
        noise = self._draw_unit_noise(rng, (*batch, *self.output_shape))
        return np.asarray(noise * self.noise_scale + self.compute_noiseless(np.asarray(value)))

    def log_prob(self, output: ArrayLike, value: ArrayLike) -> NDArray[np.float64]:
        """Returns the log-density of ``output`` given ``value``.

        The leading (batch) axes of ``output`` and ``value`` broadcast.
        """
        center = self.compute_noiseless(self.domain.check(value))
        z = (np.asarray(output, dtype=np.float64) - center) / self.noise_scale
        each = self._log_density(z) - np.log(self.noise_scale)
        return np.asarray(each.sum(axis=tuple(range(-len(self.output_shape), 0))))


class LaplaceNoise(AdditiveNoise):
    """Base class of mechanisms with Laplace noise, whose density at scale 1 is e^(-|z|)/2."""

    __slots__ = ()

    def _draw_unit_noise(self, rng: Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
        return rng.laplace(size=shape)

    def _log_density(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(-np.abs(z) - math.log(2.0))


class VectorMechanism:
    """Base class of mechanisms that accept any real vector as input and clip it themselves.

    dimension: number of entries of the vector.
    """

    __slots__ = ()

    dimension: int

    @property
    def domain(self) -> Domain:
        """Set of inputs: all real vectors of shape (dimension,)."""
        return Domain(low=-math.inf, high=math.inf, shape=(self.dimension,))


class GaussianDpMechanism(ABC):
    """Base class of mechanisms with exactly mu-Gaussian differential privacy (mu-GDP).

    The worst pair of inputs is as hard to distinguish as N(0, 1) and N(mu, 1). mu is the
    sensitivity in standard deviations.
    """

    # No epsilon holds at delta 0.

    __slots__ = ()

    @property
    @abstractmethod
    def mu(self) -> float:
        """Parameter mu: largest distance of two inputs' mean outputs, in standard deviations."""

    def worst_case(self) -> WorstCase | None:
        """Returns None, because the privacy loss is unbounded."""
        return None

    def delta(self, epsilon: float) -> float:
        """Returns the exact delta at ``epsilon``, for the worst pair of inputs.

        The value is Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu), with the sensitivity mu in
        standard deviations and the normal distribution function Phi.
        """
        return compute_gaussian_delta(self.mu, epsilon)

    def event(self) -> dp.DpEvent:
        """Returns the accounting event: Gaussian noise with noise multiplier 1/mu.

        mu is the sensitivity in standard deviations of the noise.
        """
        return dp.GaussianDpEvent(1.0 / self.mu)


class NormalNoise(GaussianDpMechanism, AdditiveNoise):
    """Base class of mechanisms with Gaussian noise.

    sigma: standard deviation of the noise.

    ``mu`` is the largest distance of two inputs' outputs before noise, in standard deviations.
    """

    # The center of an input is its output before noise. Two inputs can be distinguished only along
    # the line through their centers, because the noise across this line has the same distribution
    # for both inputs.

    __slots__ = ()

    sigma: float

    @property
    def noise_scale(self) -> float | NDArray[np.float64]:
        """Standard deviation of the noise, by default ``sigma``."""
        return self.sigma

    def _draw_unit_noise(self, rng: Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
        return rng.standard_normal(shape)

    def _log_density(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(-0.5 * z**2 - LOG_SQRT_2PI)


def clip_norm(vectors: NDArray[Any], bound: float) -> NDArray[np.float64]:
    """Scales vectors (along the last axis) down so that their L2 norm is at most ``bound``."""
    # divided by the largest entry or by the bound, so that no square overflows
    unit = np.maximum(np.abs(vectors).max(axis=-1, keepdims=True), bound)
    norm = np.linalg.norm(vectors / unit, axis=-1, keepdims=True)
    return np.asarray(vectors * (bound / unit / np.maximum(norm, bound / unit)))


def check_mu(mu: float, noise_name: str) -> None:
    """Raises InputError if a mechanism's sensitivity ``mu`` is not in [1e-100, 1e100].

    mu: sensitivity in standard deviations of the noise.
    noise_name: name of the setting that determines the noise, for the message.
    """
    # Accountants need the square of mu as a normal double. At mu = 0 the output does not depend on
    # the input.
    if not 1e-100 <= mu <= 1e100:
        raise InputError(
            f"Expected a sensitivity from 1e-100 to 1e+100 standard deviations of the noise, got "
            f"{mu!r} standard deviations. Change {noise_name} or the sensitivity."
        )


def check_range(low: float, high: float) -> None:
    """Raises InputError unless ``low`` < ``high``, and both and their distance are finite."""
    if not (-math.inf < low < high < math.inf and high - low < math.inf):
        raise InputError(
            f"Expected finite high - low > 0, got low={low!r}, high={high!r}. Change low or high."
        )


@dataclass(frozen=True, slots=True)
class Repetition(Checked, ABC):
    """Base class of mechanisms that apply an inner mechanism several times independently.

    ``mechanism``: the inner mechanism.
    ``count``: number of applications.
    ``concrete_classes``: the two classes of instances: without a privacy curve, and with one, for
        inner mechanisms with Gaussian noise.

    Outputs have shape (*size, count, *inner output).
    """

    mechanism: Mechanism
    count: Count

    concrete_classes: ClassVar[tuple[type[Repetition], type[Repetition]]]

    def __new__(cls, mechanism: Mechanism, count: int) -> Self:
        """Creates an instance, with a privacy curve if ``mechanism`` has Gaussian noise."""
        kind = cls.concrete_classes[isinstance(mechanism, GaussianDpMechanism)]
        # ``replace`` may call one class to make an instance of the other class, which Python
        # would not initialise.
        made = object.__new__(kind) if issubclass(kind, cls) else kind(mechanism, count)
        return made  # type: ignore[return-value]

    def __reduce__(self) -> tuple[type[Repetition], tuple[Mechanism, int]]:
        return self.concrete_classes[0], (self.mechanism, self.count)

    @property
    @abstractmethod
    def domain(self) -> Domain:
        """Set of inputs of the whole mechanism, not of one application."""

    @abstractmethod
    def _insert_axis(self, values: NDArray[Any]) -> NDArray[Any]:
        """Inserts an axis of length ``count`` or 1 for the applications, after the batch axes."""

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Shape (count, *inner output): one output of the inner mechanism per application."""
        return (self.count, *self.mechanism.output_shape)

    def randomize(self, value: ArrayLike, rng: Generator, size: Shape = None) -> NDArray[Any]:
        """Draws ``count`` independent outputs of the inner mechanism per input.

        The result has shape (*size, count, *shape), for inner outputs of shape ``shape``.
        """
        values = self.domain.expand_batch(value, size)
        batch = values.shape[: values.ndim - len(self.domain.shape)]
        return self.mechanism.randomize(self._insert_axis(values), rng, (*batch, self.count))

    def log_prob(self, output: ArrayLike, value: ArrayLike) -> NDArray[np.float64]:
        """Returns ln P(output | value), the sum of the log-probabilities of all applications."""
        each = self.mechanism.log_prob(output, self._insert_axis(self.domain.check(value)))
        return np.asarray(each.sum(axis=-1))

    def worst_case(self) -> WorstCase | None:
        """Returns inputs and outputs of one application that attain its largest privacy loss.

        ``n_copies``, the number of independent uses, is ``count`` times that of the inner
        mechanism. None if the privacy loss is unbounded.
        """
        if (one := self.mechanism.worst_case()) is None:
            return None
        inner = one.inner_mechanism or self.mechanism
        return replace(one, n_copies=one.n_copies * self.count, inner_mechanism=inner)

    def event(self) -> dp.DpEvent:
        """Returns the accounting event of one application, composed ``count`` times."""
        return dp.SelfComposedDpEvent(self.mechanism.event(), self.count)


class GaussianRepetition(Repetition, GaussianDpMechanism):
    """Base class of repeated mechanisms with Gaussian noise, which are mu-GDP.

    mu is the sensitivity in standard deviations. The squares of the applications' mu add up.
    """

    __slots__ = ()

    @property
    def mu(self) -> float:
        """Sensitivity in standard deviations: sqrt(count) times the mu of one application."""
        assert isinstance(self.mechanism, GaussianDpMechanism)
        return self.mechanism.mu * math.sqrt(self.count)


class PureDpMixin:
    """Base class of mechanisms that are accounted for by their ``epsilon`` alone, at delta 0."""

    __slots__ = ()

    def event(self: Any) -> dp.DpEvent:
        """Returns the accounting event of any mechanism with this ``epsilon`` at delta 0."""
        return dp.PureDpEvent(self.epsilon)


class NumberMechanism(Checked):
    """Base class of mechanisms whose output is one number."""

    __slots__ = ()

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Shape of one output: (), because an output is one number."""
        return ()


class BitMechanism(NumberMechanism):
    """Base class of mechanisms with one bit as input and one number as output."""

    __slots__ = ()

    @property
    def domain(self) -> Domain:
        """Set of inputs: the bits 0 and 1."""
        return Domain(low=0, high=1, values=(0.0, 1.0))


class SignedUnitMechanism(NumberMechanism):
    """Base class of mechanisms with a number of the signed unit interval [-1, 1] as input, and one
    number as output.
    """

    __slots__ = ()

    @property
    def domain(self) -> Domain:
        """Set of inputs: the interval [-1, 1]."""
        return Domain(low=-1, high=1)


class IntervalMechanism(NumberMechanism):
    """Base class of mechanisms with a number in an interval as input and one number as output.

    ``low``, ``high``: ends of the interval.
    """

    __slots__ = ()

    low: float
    high: float

    @property
    def domain(self) -> Domain:
        """Set of inputs: the interval [low, high]."""
        return Domain(low=self.low, high=self.high)


# Smallest epsilon above 0 that settings allow; below it, rates of different inputs round to the
# same double.
MIN_EPSILON = 1e-9
# Largest epsilon that settings allow; e^-epsilon is still a normal double, so that every output
# stays possible.
MAX_EPSILON = 700.0

# Type of a mechanism's epsilon: 0, or a number from ``MIN_EPSILON`` to ``MAX_EPSILON``.
EpsilonOrZero = Annotated[
    float,
    Range(
        f"[0, {MAX_EPSILON}]",
        f"0 or in [{MIN_EPSILON:g}, {MAX_EPSILON:g}], where doubles hold its rates",
        condition=lambda epsilon: not epsilon or epsilon >= MIN_EPSILON,
    ),
]
_DIGITS = Context(prec=60)


def check_epsilon_range(epsilon: float) -> None:
    """Raises InputError unless ``epsilon`` is in [1e-9, 700].

    Outside this range, doubles cannot represent the output probabilities of mechanisms.
    """
    if not MIN_EPSILON <= check_epsilon(epsilon) <= MAX_EPSILON:
        raise InputError(
            f"Expected epsilon in [{MIN_EPSILON:g}, {MAX_EPSILON:g}], got epsilon={epsilon!r}. "
            "Choose an epsilon in this range, in which doubles represent all probabilities."
        )


@lru_cache(maxsize=256)
def compute_input_ignore_prob(epsilon: float, n_outputs: int, n_favoured: int = 1) -> float:
    """Computes the probability with which a mechanism must ignore its input, for an epsilon.

    epsilon: epsilon of the mechanism.
    n_outputs: number of possible outputs.
    n_favoured: number of outputs that the input makes more likely.

    The mechanism draws from all outputs with probability a, and otherwise from the favoured
    outputs, always uniformly. The result, rounded up to a double, is

        a = 1/(1 + (e^epsilon - 1) n_favoured/n_outputs).
    """
    # A favoured output is 1 + (1 - a) n_outputs/(a n_favoured) times as likely as another output.
    # This ratio is e^epsilon for the exact a. Rounding up keeps the ratio from exceeding e^epsilon.
    growth = _DIGITS.subtract(_DIGITS.exp(Decimal(epsilon)), Decimal(1))
    return round_up(1 / (1 + Fraction(growth) * Fraction(n_favoured, n_outputs)))


@lru_cache(maxsize=256)
def compute_flip_rate(epsilon: float) -> float:
    """Computes the flip probability 1/(e^epsilon + 1) of randomized response, rounded up.

    Rounding up keeps the true epsilon from exceeding ``epsilon``.
    """
    return round_up(1 / (1 + Fraction(_DIGITS.exp(Decimal(epsilon)))))


def round_up(exact: Fraction) -> float:
    """Converts a fraction to the smallest double that is not below it."""
    near = float(exact)
    return near if Fraction(near) >= exact else math.nextafter(near, math.inf)
