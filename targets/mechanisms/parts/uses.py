"""Base classes of mechanisms: repeated uses, kinds of inputs and outputs, and rates."""

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
from fedrec_auditor.targets.mechanisms.parts.additive import NormalCurve
from fedrec_auditor.targets.settings import Checked, Range, Whole


@dataclass(frozen=True, slots=True)
class Uses(Checked, ABC):
    """``count`` independent uses of ``mechanism``; outputs are (*size, count, *inner output).

    ``kinds`` are the member's class and its class for a ``mechanism`` with normal noise.
    """

    mechanism: Mechanism
    count: Whole

    kinds: ClassVar[tuple[type[Uses], type[Uses]]]

    def __new__(cls, mechanism: Mechanism, count: int) -> Self:
        """Returns an instance that knows its privacy curve if ``mechanism`` has normal noise."""
        kind = cls.kinds[isinstance(mechanism, NormalCurve)]
        # ``replace`` may call one kind to make the other, which Python would not initialise.
        made = object.__new__(kind) if issubclass(kind, cls) else kind(mechanism, count)
        return made  # type: ignore[return-value]

    def __reduce__(self) -> tuple[type[Uses], tuple[Mechanism, int]]:
        return self.kinds[0], (self.mechanism, self.count)

    @property
    @abstractmethod
    def domain(self) -> Domain:
        """Inputs of all uses."""

    @abstractmethod
    def _lift(self, values: NDArray[Any]) -> NDArray[Any]:
        """Inputs with an axis of uses, of length ``count`` or 1, after the batch."""

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Shape (count, ...): one output of the inner mechanism per use."""
        return (self.count, *self.mechanism.output_shape)

    def randomize(self, value: ArrayLike, rng: Generator, size: Size = None) -> NDArray[Any]:
        """Draws the outputs of all uses independently."""
        values = self.domain.spread(value, size)
        batch = values.shape[: values.ndim - len(self.domain.shape)]
        return self.mechanism.randomize(self._lift(values), rng, (*batch, self.count))

    def log_prob(self, output: ArrayLike, value: ArrayLike) -> NDArray[np.float64]:
        """Sum of the log-probabilities of the uses."""
        each = self.mechanism.log_prob(output, self._lift(self.domain.check(value)))
        return np.asarray(each.sum(axis=-1))

    def worst_case(self) -> WorstCase | None:
        """The worst case of one use, with ``count`` times its copies."""
        one = self.mechanism.worst_case()
        if one is None:
            return None
        return replace(one, copies=one.copies * self.count, part=one.part or self.mechanism)

    def event(self) -> dp.DpEvent:
        """Event of one use, composed ``count`` times."""
        return dp.SelfComposedDpEvent(self.mechanism.event(), self.count)


class NormalUses(Uses, NormalCurve):
    """Uses with normal noise, whose squared mu add up."""

    __slots__ = ()

    @property
    def mu(self) -> float:
        """sqrt(count) times the mu of one use."""
        assert isinstance(self.mechanism, NormalCurve)
        return self.mechanism.mu * math.sqrt(self.count)


class PureEpsilon:
    """A mechanism that accountants charge by its ``epsilon`` alone."""

    __slots__ = ()

    def event(self: Any) -> dp.DpEvent:
        """Event of any mechanism of this epsilon."""
        return dp.PureDpEvent(self.epsilon)


class OneNumber(Checked):
    """A mechanism whose output is one number."""

    __slots__ = ()

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Empty shape: no axes beyond those of the batch."""
        return ()


class OneBit(OneNumber):
    """A mechanism whose input is a bit."""

    __slots__ = ()

    @property
    def domain(self) -> Domain:
        """The values 0 and 1."""
        return Domain(low=0, high=1, values=(0.0, 1.0))


class UnitEntry(OneNumber):
    """A mechanism whose input is a number in [-1, 1]."""

    __slots__ = ()

    @property
    def domain(self) -> Domain:
        """The interval [-1, 1]."""
        return Domain(low=-1, high=1)


class BoundedEntry(OneNumber):
    """A mechanism whose input is a number in [``low``, ``high``]."""

    __slots__ = ()

    low: float
    high: float

    @property
    def domain(self) -> Domain:
        """The interval [low, high]."""
        return Domain(low=self.low, high=self.high)


LEAST = 1e-9
"""Smallest epsilon: for smaller ones rates round to the same double, and noise hides all."""
LARGEST = 700.0
"""Largest epsilon for which e^-epsilon is a normal double, so that every output stays possible."""

RateOrNone = Annotated[
    float,
    Range(
        f"[0, {LARGEST}]",
        f"0 or in [{LEAST:g}, {LARGEST:g}], where doubles hold its rates",
        also=lambda epsilon: not epsilon or epsilon >= LEAST,
    ),
]
_DIGITS = Context(prec=60)


def check_rate_epsilon(epsilon: float) -> None:
    """Raises InputError unless the rates of ``epsilon`` are normal doubles."""
    if not LEAST <= check_epsilon(epsilon) <= LARGEST:
        raise InputError(
            f"Expected epsilon in [{LEAST:g}, {LARGEST:g}], got epsilon={epsilon!r}. Choose "
            "another epsilon: doubles do not represent the rates and scales of this one."
        )


@lru_cache(maxsize=256)
def share_of_noise(epsilon: float, outputs: int, favoured: int = 1) -> float:
    """Rate a of a uniform draw over all ``outputs`` that makes the largest ratio e^epsilon.

    With probability 1 - a the draw is uniform over the ``favoured`` outputs. A favoured output is
    then 1 + (1 - a) outputs/(a favoured) times as likely as another, and a = 1/(1 + (e^epsilon - 1)
    favoured/outputs). The result is the smallest double that is not below a, so that the ratio
    never exceeds e^epsilon.
    """
    growth = _DIGITS.subtract(_DIGITS.exp(Decimal(epsilon)), Decimal(1))
    exact = 1 / (1 + Fraction(growth) * Fraction(favoured, outputs))
    return at_least(exact)


@lru_cache(maxsize=256)
def flip_rate(epsilon: float) -> float:
    """Flip rate of randomized response, 1/(e^epsilon + 1), rounded up: at most ``epsilon``."""
    return at_least(1 / (1 + Fraction(_DIGITS.exp(Decimal(epsilon)))))


def at_least(exact: Fraction) -> float:
    """The smallest double that is not below ``exact``."""
    near = float(exact)
    return near if Fraction(near) >= exact else math.nextafter(near, math.inf)
