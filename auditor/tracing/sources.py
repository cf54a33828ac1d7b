"""Sources of randomness: one draw each, whose values are split into cells of known probability.

A cell of a discrete source is a bit mask over its values; a cell of a real one is a tuple of
disjoint intervals with exact ends. What coins a program looked at confines sources to cells.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from scipy import special

Interval = tuple[Any, Any]
"""Two ends, each a Fraction or an infinite float."""
Mass = Fraction | float

_HALF = Fraction(1, 2)


@dataclass(frozen=True, slots=True, eq=False)
class Discrete:
    """One of ``values`` with the probabilities ``masses``, which sum to 1."""

    name: str
    values: tuple[Any, ...]
    masses: tuple[Mass, ...]

    @property
    def whole(self) -> int:
        """The cell of all values."""
        return (1 << len(self.values)) - 1

    @property
    def possible(self) -> int:
        """The cell of all values that have a probability."""
        return sum(1 << k for k, mass in enumerate(self.masses) if mass)

    def meet(self, one: Any, other: Any) -> Any:
        """What two cells share; false where they share nothing."""
        return one & other

    def join(self, one: Any, other: Any) -> Any:
        """The cell of both."""
        return one | other

    def mass(self, cell: Any) -> Mass:
        """The probability of a cell."""
        if cell == self.whole:
            return Fraction(1)
        return sum((self.masses[k] for k in _bits(cell)), Fraction(0))

    def draw(self, cell: Any, rng: np.random.Generator) -> Any:
        """A value of the cell, drawn by its conditional probability."""
        share = rng.random() * float(self.mass(cell))
        places = [k for k in _bits(cell) if self.masses[k]]
        for k in places:
            share -= float(self.masses[k])
            if share < 0.0:
                return self.values[k]
        return self.values[places[-1]]

    def holds(self, cell: Any, value: Any) -> bool:
        """Whether ``value``, as ``draw`` gave it, is in the cell."""
        return any(self.values[k] is value for k in _bits(cell))

    def same(self, other: Any) -> bool:
        """Whether the other one is drawn from the same distribution."""
        return (
            isinstance(other, Discrete)
            and self.name == other.name
            and self.masses == other.masses
            and len(self.values) == len(other.values)
        )


@dataclass(frozen=True, slots=True, eq=False)
class Real:
    """A real number of a standard family, or a whole one with P(k) proportional to e^(-rate |k|).

    ``family`` is "uniform" on [0, 1], "laplace", "exponential", "normal", "geometric" (1, 2, ...),
    "two-sided geometric", or "integers", each of 0, ... below ``count`` as likely.
    """

    name: str
    family: str
    rate: float = 0.0
    count: int = 0

    @property
    def whole(self) -> tuple[Interval, ...]:
        """The cell of all values."""
        if self.count:
            return ((-_HALF, self.count - _HALF),)
        return (_SUPPORTS[self.family],)

    @property
    def lattice(self) -> bool:
        """Whether values are whole numbers."""
        return self.family.endswith("geometric") or self.count > 0

    def meet(self, one: Any, other: Any) -> Any:
        """What two cells share; false where they share nothing."""
        if one is other:
            return one
        pairs = ((max(a, c), min(b, d)) for a, b in one for c, d in other)
        return tuple((low, high) for low, high in pairs if low < high)

    def join(self, one: Any, other: Any) -> Any:
        """The cell of both, which are disjoint."""
        joined: list[Interval] = []
        for low, high in sorted(one + other):
            if joined and joined[-1][1] >= low:
                joined[-1] = joined[-1][0], max(high, joined[-1][1])
            else:
                joined.append((low, high))
        return tuple(joined)

    def below(self, cell: Any, threshold: Any) -> tuple[Any, Any]:
        """The parts of a cell below and above a threshold."""
        parts = (-math.inf, threshold), (threshold, math.inf)
        return self.meet(cell, parts[:1]), self.meet(cell, parts[1:])

    def mass(self, cell: Any) -> Mass:
        """The probability of a cell."""
        if cell == self.whole:
            return Fraction(1)
        return sum((self.between(low, high) for low, high in cell), Fraction(0))

    def between(self, low: Any, high: Any) -> Mass:
        """The probability of an interval of the support."""
        if self.family == "uniform":
            return Fraction(high) - Fraction(low)
        if self.count:
            return Fraction(math.ceil(high) - math.ceil(low), self.count)
        if self.lattice:
            if low < 0 and high > _HALF:
                return self.between(low, _HALF) + self.between(_HALF, high)
            if high < 1:
                low, high = -high, -low
            first, beyond = math.ceil(low), math.inf if math.isinf(high) else math.ceil(high)
            if self.family != "geometric":
                tail = math.exp(-self.rate * first) * -math.expm1(-self.rate * (beyond - first))
                return tail / (1.0 + math.exp(-self.rate))
            return math.exp(-self.rate * (first - 1)) * -math.expm1(-self.rate * (beyond - first))
        a, b = float(low), float(high)
        if self.family == "normal":
            a, b = (a, b) if a + b <= 0 else (-b, -a)
            return float(special.ndtr(b) - special.ndtr(a))
        if a < 0.0 < b:
            return float(self.between(low, 0) + self.between(0, high))
        near, far = min(abs(a), abs(b)), max(abs(a), abs(b))
        half = 0.5 if self.family == "laplace" else 1.0
        return half * math.exp(-near) * -math.expm1(near - far)

    def draw(self, cell: Any, rng: np.random.Generator) -> Any:
        """A value of the cell, drawn by its conditional probability."""
        low, high = cell[0]
        if len(cell) > 1:
            masses = np.asarray([float(self.between(*interval)) for interval in cell])
            low, high = cell[rng.choice(len(cell), p=masses / masses.sum())]
        if self.count:
            return int(rng.integers(math.ceil(low), math.ceil(high), dtype=np.uint64))
        share, a, b = rng.random(), float(low), float(high)
        if self.family == "uniform":
            return a + share * (b - a)
        if self.family == "normal":
            left, right = float(special.ndtr(a)), float(special.ndtr(b))
            value = float(special.ndtri(left + share * (right - left)))
            return min(max(value, a), b) if math.isfinite(value) else _middle(a, b)
        if a < 0.0 < b:
            left = float(self.between(low, 0) / (self.between(low, 0) + self.between(0, high)))
            return self.draw(((low, 0),) if share < left else ((0, high),), rng)
        sign, near, far = (-1.0, -b, -a) if b <= 0.0 else (1.0, a, b)
        rate = self.rate if self.lattice else 1.0
        if self.lattice:
            near, far = math.ceil(near), far if math.isinf(far) else math.ceil(far)
        value = near - math.log1p(share * math.expm1(-rate * (far - near))) / rate
        return math.floor(value) if self.lattice else sign * value

    def holds(self, cell: Any, value: Any) -> bool:
        """Whether ``value``, as ``draw`` gave it, is in the cell."""
        return any(float(low) <= value <= float(high) for low, high in cell)

    def same(self, other: Any) -> bool:
        """Whether the other one is drawn from the same distribution."""
        mine = self.family, self.rate, self.count
        return isinstance(other, Real) and mine == (other.family, other.rate, other.count)


Source = Discrete | Real

_SUPPORTS: dict[str, Interval] = {
    "uniform": (Fraction(0), Fraction(1)),
    "laplace": (-math.inf, math.inf),
    "normal": (-math.inf, math.inf),
    "exponential": (Fraction(0), math.inf),
    "geometric": (_HALF, math.inf),
    "two-sided geometric": (-math.inf, math.inf),
}


def _middle(low: float, high: float) -> float:
    """A finite number of an interval in a far tail."""
    return low + 0.1 / abs(low) if math.isinf(high) else high - 0.1 / abs(high)


def _bits(cell: int) -> list[int]:
    return [k for k in range(cell.bit_length()) if cell >> k & 1]
