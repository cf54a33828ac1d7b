"""Paths of a randomizer: draws as sources with cells, and what its coins decided."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from scipy import special

# Sources of randomness: one draw each, whose values are split into cells of known probability.
#
# A cell of a discrete source is a bit mask over its values; a cell of a real one is a tuple of
# disjoint intervals with exact ends. What coins a program looked at confines sources to cells.

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


MOST_PATHS = 1 << 14
LEFT_OUT = 2.0**-100
MOST_STEPS = 3_000_000
"""Steps of the interpreter and values of open draws that it works out, for one input."""
MOST_SOURCES = 1 << 16
"""Draws of one path, at most."""
RUN, _DECISION = 200, 20
"""Steps that a run of the code costs, and a decision."""
_TRIES, _DEEPEST = 1000, 512
_CHANGED = "the function took another way with the same coins: it depends on more than these"


class NotTraced(Exception):
    """The code does something that is not followed; the message says what, ``where`` the line."""

    def __init__(self, reason: str, where: str = "") -> None:
        super().__init__(reason)
        self.where = where

    def __str__(self) -> str:
        return f"{self.args[0]}{self.where}"


class OutOfSteps(NotTraced):
    """An input takes more work than there is for it."""


class Changed(NotTraced):
    """Something that the code read has changed, which a second look would not see."""


class LeftOut(Exception):
    """A path is rarer than 2^-100: its mass is left out."""


class StepBudget:
    """Steps that an input may take: the same for the same code, whatever the machine."""

    def __init__(self, steps: int = MOST_STEPS) -> None:
        self.steps = self.left = steps

    def spend(self, steps: int = 1) -> None:
        """Take some; OutOfSteps where there are no more."""
        self.left -= steps
        if self.left < 0:
            raise OutOfSteps(f"its paths take more than {self.steps:,} steps")


class Path:
    """One run: the sources drawn so far, the cells they are confined to, and the decisions taken.

    ``decisions`` are pairs (taken, options); the first ones are given, the others take option 0.
    ``values`` replays: each source then has that value, draws are plain numbers, and ``strayed``
    says that others were drawn, whatever the code did of the exception. ``eager`` decides on
    discrete draws at once, for code that looks at types.
    """

    def __init__(
        self,
        decisions: list[tuple[int, int]],
        *,
        budget: StepBudget,
        eager: bool = False,
        sources: list[Source] | None = None,
        values: list[Any] | None = None,
    ) -> None:
        self.decisions, self.budget, self.eager = decisions, budget, eager
        self.values, self._expected = values, sources
        self.sources: list[Source] = []
        self.limits: dict[Source, Any] = {}
        self.sums: dict[Source, tuple[tuple[Source, float], ...]] = {}
        self.used_up: set[Source] = set()
        self.changes = 0
        self.strayed = False
        self._share, self._decided = 1.0, 0

    def add(self, source: Source) -> Any:
        """Take a draw of ``source``: its value in a replay, None where it is open."""
        if len(self.sources) >= MOST_SOURCES:
            raise NotTraced(f"one call draws more than {MOST_SOURCES:,} random numbers")
        self.budget.spend()
        place = len(self.sources)
        self.sources.append(source)
        if self._expected is None or self.values is None:
            return None
        if place >= len(self._expected) or not source.same(self._expected[place]):
            self.strayed = True
            raise NotTraced(_CHANGED)
        return self.values[place]

    def decide(self, options: int) -> int:
        """The option taken at this point."""
        self.budget.spend(_DECISION)
        if self._decided >= _DEEPEST:
            raise NotTraced("a loop goes on for as long as its coins say")
        if self._decided == len(self.decisions):
            self.decisions.append((0, options))
        taken, known = self.decisions[self._decided]
        if known != options:
            raise NotTraced(_CHANGED)
        self._decided += 1
        return taken

    def decide_whole(self, source: Real) -> None:
        """Decide on one value of geometric noise; those beyond 2^-100 are left out."""
        half, last = Fraction(1, 2), math.ceil(-math.log(LEFT_OUT) / source.rate) + 1
        if last > MOST_PATHS:
            raise NotTraced(f"noise of more than {MOST_PATHS:,} steps is added to other noise")
        ends = [-math.inf, *(k + half for k in range(-last - 1, last + 1)), math.inf]
        cell = self.limits.get(source, source.whole)
        parts = [source.meet(cell, (interval,)) for interval in itertools.pairwise(ends)]
        parts = [part for part in parts if part and source.mass(part)]
        self.confine({source: parts[self.decide(len(parts))]})

    def confine(self, cells: dict[Source, Any]) -> None:
        """From here on the sources have values in these cells, which lie in the former ones."""
        for source, cell in cells.items():
            before = source.mass(self.limits.get(source, source.whole))
            self._share *= float(source.mass(cell) / before)
        self.limits.update(cells)
        self.changes += 1
        if self._share < LEFT_OUT:
            raise LeftOut

    def add_up(self, total: Source, *parts: tuple[Source, float]) -> Source:
        """A source in the place of a weighted sum of others, which nothing else may use."""
        for known, before in self.sums.items():
            if before == parts:
                return known
        self.sums[total] = parts
        self.used_up.update(source for source, _ in parts)
        self.changes += 1
        return total

    def draw(self, rng: np.random.Generator, limits: dict[Source, Any]) -> Any:
        """Values of all sources, drawn given these limits; None where they are rarely kept to."""
        for _ in range(_TRIES):
            values = {s: s.draw(limits.get(s, s.whole), rng) for s in self.sources}
            for total, parts in self.sums.items():
                values[total] = sum(weight * values[source] for source, weight in parts)
            if all(s.holds(limits[s], values[s]) for s in self.sums if s in limits):
                return values
        return None

    @property
    def weight(self) -> Mass:
        """The probability of the path."""
        weight: Mass = Fraction(1)
        for source, cell in self.limits.items():
            weight *= source.mass(cell)
        return weight


def paths(
    run: Callable[[Path], Any], *, budget: StepBudget, eager: bool
) -> Iterator[tuple[Path, Any]]:
    """Every path with what ``run`` returned on it, in order of its decisions.

    None for a path rarer than 2^-100, as loops that go on have.

    NotTraced where there are too many, or where the code depends on more than
    its coins.
    """
    decisions: list[tuple[int, int]] = []
    for _ in range(MOST_PATHS):
        given = len(decisions)
        path = Path(decisions, budget=budget, eager=eager)
        budget.spend(RUN)
        try:
            answer = run(path)
        except LeftOut:
            yield path, None
        else:
            if path._decided < given:
                raise NotTraced(_CHANGED)
            yield path, answer
        decisions = list(path.decisions)
        while decisions and decisions[-1][0] == decisions[-1][1] - 1:
            decisions.pop()
        if not decisions:
            return
        taken, options = decisions.pop()
        decisions.append((taken + 1, options))
    raise NotTraced(
        f"its coins steer it through more than {MOST_PATHS:,} paths; where numpy.where or "
        "arithmetic on arrays takes the place of if, they need none"
    )
