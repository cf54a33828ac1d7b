"""Base classes of mechanisms: repeated uses, types of inputs and outputs, and ranges of epsilon."""

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
from fedrec_auditor.accountants.statements import check_epsilon
from fedrec_auditor.targets.mechanisms.base import Domain, Mechanism, Size, WorstCase
from fedrec_auditor.targets.mechanisms.parts.additive import GaussianCurve
from fedrec_auditor.targets.settings import Checked, Range, Whole


@dataclass(frozen=True, slots=True)
class Repetition(Checked, ABC):
    """Base class for ``count`` independent applications of an inner ``mechanism``.

    Outputs have shape (*size, count, *inner output). ``use_classes`` holds the class of which
    instances are made for most mechanisms, and its subclass with a privacy curve for a mechanism
    with Gaussian noise.
    """

    mechanism: Mechanism
    count: Whole

    use_classes: ClassVar[tuple[type[Repetition], type[Repetition]]]

    def __new__(cls, mechanism: Mechanism, count: int) -> Self:
        """Returns an instance; with a privacy curve if ``mechanism`` has Gaussian noise."""
        kind = cls.use_classes[isinstance(mechanism, GaussianCurve)]
        # ``replace`` may call one class to make an instance of the other class, which Python
        # would not initialise.
        made = object.__new__(kind) if issubclass(kind, cls) else kind(mechanism, count)
        return made  # type: ignore[return-value]

    def __reduce__(self) -> tuple[type[Repetition], tuple[Mechanism, int]]:
        return self.use_classes[0], (self.mechanism, self.count)

    @property
    @abstractmethod
    def domain(self) -> Domain:
        """Set of inputs of all applications together."""

    @abstractmethod
    def _lift(self, values: NDArray[Any]) -> NDArray[Any]:
        """Inserts an axis of applications, of length ``count`` or 1, after the batch axes of
        ``values``.
        """

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Shape (count, ...): one output of the inner mechanism per application."""
        return (self.count, *self.mechanism.output_shape)

    def randomize(self, value: ArrayLike, rng: Generator, size: Size = None) -> NDArray[Any]:
        """Draws the outputs of all applications independently, shape (*size, *output_shape)."""
        values = self.domain.expand_batch(value, size)
        batch = values.shape[: values.ndim - len(self.domain.shape)]
        return self.mechanism.randomize(self._lift(values), rng, (*batch, self.count))

    def log_prob(self, output: ArrayLike, value: ArrayLike) -> NDArray[np.float64]:
        """Returns ln P(output | value), the sum of the log-probabilities of all applications."""
        each = self.mechanism.log_prob(output, self._lift(self.domain.check(value)))
        return np.asarray(each.sum(axis=-1))

    def worst_case(self) -> WorstCase | None:
        """Returns inputs and outputs of one application among which its largest log-ratio of
        probabilities occurs.

        ``copies``, the number of independent randomizations, is ``count`` times as large as for one
        application. None if the log-ratio is unbounded.
        """
        one = self.mechanism.worst_case()
        if one is None:
            return None
        return replace(one, copies=one.copies * self.count, one_copy=one.one_copy or self.mechanism)

    def event(self) -> dp.DpEvent:
        """Returns the accounting event of one application, composed ``count`` times."""
        return dp.SelfComposedDpEvent(self.mechanism.event(), self.count)


class GaussianUses(Repetition, GaussianCurve):
    """Base class of independent applications of a mechanism with Gaussian noise.

    The squares of their mu, the sensitivity in standard deviations of the noise, add up.
    """

    __slots__ = ()

    @property
    def mu(self) -> float:
        """Sensitivity in standard deviations: sqrt(count) times that of one application."""
        assert isinstance(self.mechanism, GaussianCurve)
        return self.mechanism.mu * math.sqrt(self.count)


class PureEpsilon:
    """Base class of mechanisms whose accounting uses only ``epsilon``, at delta 0."""

    __slots__ = ()

    def event(self: Any) -> dp.DpEvent:
        """Returns the accounting event of an arbitrary mechanism with this epsilon at delta 0."""
        return dp.PureDpEvent(self.epsilon)


class NumberOutput(Checked):
    """Base class of mechanisms whose output is one number."""

    __slots__ = ()

    @property
    def output_shape(self) -> tuple[int, ...]:
        """The empty shape (), because an output is one number."""
        return ()


class BitInput(NumberOutput):
    """Base class of mechanisms whose input is one bit."""

    __slots__ = ()

    @property
    def domain(self) -> Domain:
        """The values 0 and 1."""
        return Domain(low=0, high=1, values=(0.0, 1.0))


class UnitNumber(NumberOutput):
    """Base class of mechanisms whose input is one number in [-1, 1]."""

    __slots__ = ()

    @property
    def domain(self) -> Domain:
        """The interval [-1, 1]."""
        return Domain(low=-1, high=1)


class IntervalInput(NumberOutput):
    """Base class of mechanisms whose input is one number in [``low``, ``high``]."""

    __slots__ = ()

    low: float
    high: float

    @property
    def domain(self) -> Domain:
        """The interval [low, high]."""
        return Domain(low=self.low, high=self.high)


# Smallest epsilon above 0 that settings allow; below it, rates of different inputs round to the
# same double.
MIN_EPSILON = 1e-9
# Largest epsilon that settings allow; e^-epsilon is still a normal double, so that every output
# stays possible.
MAX_EPSILON = 700.0

EpsilonOrZero = Annotated[
    float,
    Range(
        f"[0, {MAX_EPSILON}]",
        f"0 or in [{MIN_EPSILON:g}, {MAX_EPSILON:g}], where doubles hold its rates",
        also=lambda epsilon: not epsilon or epsilon >= MIN_EPSILON,
    ),
]
_DIGITS = Context(prec=60)


def check_rate_epsilon(epsilon: float) -> None:
    """Raises InputError unless ``epsilon`` is in [1e-9, 700].

    Outside this range, doubles cannot represent the probabilities of a mechanism.
    """
    if not MIN_EPSILON <= check_epsilon(epsilon) <= MAX_EPSILON:
        raise InputError(
            f"Expected epsilon in [{MIN_EPSILON:g}, {MAX_EPSILON:g}], got epsilon={epsilon!r}. "
            "Choose an epsilon in this range, in which doubles represent all probabilities."
        )


@lru_cache(maxsize=256)
def share_of_noise(epsilon: float, outputs: int, favoured: int = 1) -> float:
    """Returns the probability of ignoring the input at which a mechanism has this ``epsilon``.

    The mechanism draws uniformly from all outputs with this probability a, and otherwise uniformly
    from some outputs that the input favours. A favoured output is then 1 + (1 - a) outputs/(a
    favoured) times as likely as another, and a = 1/(1 + (e^epsilon - 1) favoured/outputs). The
    result is the smallest double that is not below a, so that the ratio never exceeds e^epsilon.

    outputs: number of possible outputs.
    favoured: number of outputs that the input makes more likely.
    """
    growth = _DIGITS.subtract(_DIGITS.exp(Decimal(epsilon)), Decimal(1))
    exact = 1 / (1 + Fraction(growth) * Fraction(favoured, outputs))
    return at_least(exact)


@lru_cache(maxsize=256)
def flip_rate(epsilon: float) -> float:
    """Returns the flip probability 1/(e^epsilon + 1) of randomized response, rounded up.

    Rounding up keeps the true epsilon from exceeding ``epsilon``.
    """
    return at_least(1 / (1 + Fraction(_DIGITS.exp(Decimal(epsilon)))))


def at_least(exact: Fraction) -> float:
    """Returns the smallest double that is not below ``exact``."""
    near = float(exact)
    return near if Fraction(near) >= exact else math.nextafter(near, math.inf)
