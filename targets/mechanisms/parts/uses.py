"""Uses of a mechanism: over entries, at rates, repeated."""

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

    ``kinds`` are a member's class, and its class where ``mechanism`` has normal noise.
    """

    mechanism: Mechanism
    count: Whole

    kinds: ClassVar[tuple[type[Uses], type[Uses]]]

    def __new__(cls, mechanism: Mechanism, count: int) -> Self:
        """One that knows its curve if ``mechanism`` has normal noise."""
        kind = cls.kinds[isinstance(mechanism, NormalCurve)]
        # ``replace`` may ask one kind for the other, and Python would not initialise it.
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
        """Inputs with an axis of uses, of length ``count`` or 1, behind the batch."""

    @property
    def output_shape(self) -> tuple[int, ...]:
        """One output of the inner mechanism a use, (count, ...)."""
        return (self.count, *self.mechanism.output_shape)

    def randomize(self, value: ArrayLike, rng: Generator, size: Size = None) -> NDArray[Any]:
        """Draw outputs, every use by itself."""
        values = self.domain.spread(value, size)
        batch = values.shape[: values.ndim - len(self.domain.shape)]
        return self.mechanism.randomize(self._lift(values), rng, (*batch, self.count))

    def log_prob(self, output: ArrayLike, value: ArrayLike) -> NDArray[np.float64]:
        """Sum of the uses' log-probabilities."""
        each = self.mechanism.log_prob(output, self._lift(self.domain.check(value)))
        return np.asarray(each.sum(axis=-1))

    def worst_case(self) -> WorstCase | None:
        """The sets of one use, with ``count`` times its copies."""
        one = self.mechanism.worst_case()
        if one is None:
            return None
        return replace(one, copies=one.copies * self.count, part=one.part or self.mechanism)

    def event(self) -> dp.DpEvent:
        """The event of one use, composed ``count`` times."""
        return dp.SelfComposedDpEvent(self.mechanism.event(), self.count)


class NormalUses(Uses, NormalCurve):
    """Uses with normal noise, which adds up in squares."""

    __slots__ = ()

    @property
    def mu(self) -> float:
        """sqrt(count) times that of one use."""
        assert isinstance(self.mechanism, NormalCurve)
        return self.mechanism.mu * math.sqrt(self.count)


class PureEpsilon:
    """Charged as any mechanism of its ``epsilon``."""

    __slots__ = ()

    def event(self: Any) -> dp.DpEvent:
        """Any mechanism of this epsilon."""
        return dp.PureDpEvent(self.epsilon)


class OneNumber(Checked):
    """An output is one number."""

    __slots__ = ()

    @property
    def output_shape(self) -> tuple[int, ...]:
        """No axes beyond those of the batch."""
        return ()


class OneBit(OneNumber):
    """The input is a bit."""

    __slots__ = ()

    @property
    def domain(self) -> Domain:
        """0 and 1."""
        return Domain(low=0, high=1, values=(0.0, 1.0))


class UnitEntry(OneNumber):
    """The input is a number in [-1, 1]."""

    __slots__ = ()

    @property
    def domain(self) -> Domain:
        """The interval [-1, 1]."""
        return Domain(low=-1, high=1)


class BoundedEntry(OneNumber):
    """The input is a number in [``low``, ``high``]."""

    __slots__ = ()

    low: float
    high: float

    @property
    def domain(self) -> Domain:
        """The interval [low, high]."""
        return Domain(low=self.low, high=self.high)


LEAST = 1e-9
"""Smallest epsilon: below, rates round to those of another, and noise of 1/epsilon drowns all."""
LARGEST = 700.0
"""Largest epsilon: e^-epsilon is still a normal double, so that no output becomes impossible."""

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
    """InputError unless doubles hold the rates of ``epsilon``."""
    if not LEAST <= check_epsilon(epsilon) <= LARGEST:
        raise InputError(
            f"Expected epsilon in [{LEAST:g}, {LARGEST:g}], got epsilon={epsilon!r}. Outside, "
            "doubles do not hold the rates and scales: choose another."
        )


@lru_cache(maxsize=256)
def share_of_noise(epsilon: float, outputs: int, favoured: int = 1) -> float:
    """The rate a of a uniform draw over all ``outputs`` that makes the largest ratio e^epsilon.

    With probability 1 - a the draw is uniform over the ``favoured`` ones, so a favoured output is
    1 + (1 - a) outputs/(a favoured) times as likely as another, and a = 1/(1 + (e^epsilon - 1)
    favoured/outputs). The least double above that: the ratio of the double is never above
    e^epsilon.
    """
    growth = _DIGITS.subtract(_DIGITS.exp(Decimal(epsilon)), Decimal(1))
    exact = 1 / (1 + Fraction(growth) * Fraction(favoured, outputs))
    return at_least(exact)


@lru_cache(maxsize=256)
def flip_rate(epsilon: float) -> float:
    """1/(e^epsilon + 1), rounded up: randomized response of at most ``epsilon``."""
    return at_least(1 / (1 + Fraction(_DIGITS.exp(Decimal(epsilon)))))


def at_least(exact: Fraction) -> float:
    """The least double that is not below ``exact``."""
    near = float(exact)
    return near if Fraction(near) >= exact else math.nextafter(near, math.inf)
