"""Execution paths of a randomizer: its random draws as sources with cells, and its decisions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from scipy import special

# A source of randomness is one draw; its values are split into cells of known probability.
#
# A cell of a discrete source is a bit mask over its values; a cell of a real source is a tuple of
# disjoint intervals with exact ends. A decision of the program on a draw restricts it to a cell.

Interval = tuple[Any, Any]
"""Two ends, each a Fraction or an infinite float."""
Mass = Fraction | float

_HALF = Fraction(1, 2)


@dataclass(frozen=True, slots=True, eq=False)
class FiniteDraw:
    """A draw of one of ``values``, with the probabilities ``masses``, which sum to 1."""

    name: str
    values: tuple[Any, ...]
    masses: tuple[Mass, ...]

    @property
    def domain(self) -> int:
        """The cell that holds every value."""
        return (1 << len(self.values)) - 1

    @property
    def support(self) -> int:
        """The cell that holds every value of positive probability."""
        return sum(1 << k for k, mass in enumerate(self.masses) if mass)

    def intersect(self, one: Any, other: Any) -> Any:
        """The intersection of two cells; 0 (false) if they are disjoint."""
        return one & other

    def unite(self, one: Any, other: Any) -> Any:
        """The union of two cells."""
        return one | other

    def mass(self, cell: Any) -> Mass:
        """The probability of a cell."""
        if cell == self.domain:
            return Fraction(1)
        return sum((self.masses[k] for k in _bits(cell)), Fraction(0))

    def draw(self, cell: Any, rng: np.random.Generator) -> Any:
        """A value drawn from the distribution conditional on the cell."""
        share = rng.random() * float(self.mass(cell))
        places = [k for k in _bits(cell) if self.masses[k]]
        for k in places:
            share -= float(self.masses[k])
            if share < 0.0:
                return self.values[k]
        return self.values[places[-1]]

    def contains(self, cell: Any, value: Any) -> bool:
        """Whether ``value``, an object that ``draw`` returned, lies in the cell."""
        return any(self.values[k] is value for k in _bits(cell))

    def is_same(self, other: Any) -> bool:
        """Whether ``other`` is a draw from the same distribution."""
        return (
            isinstance(other, FiniteDraw)
            and self.name == other.name
            and self.masses == other.masses
            and len(self.values) == len(other.values)
        )


@dataclass(frozen=True, slots=True, eq=False)
class RealDraw:
    """A draw of a real number from a standard family, or of an integer.

    - ``family``: "uniform" on [0, 1], "laplace", "exponential", "normal", "geometric" (1, 2, ...),
      "two-sided geometric", or "integers" (0, ..., ``count`` - 1, each equally likely).
    - ``rate``: of the geometric families, P(k) is proportional to e^(-rate |k|).
    - ``count``: number of values of "integers"; 0 for every other family.
    """

    name: str
    family: str
    rate: float = 0.0
    count: int = 0

    @property
    def domain(self) -> tuple[Interval, ...]:
        """The cell that holds every value."""
        if self.count:
            return ((-_HALF, self.count - _HALF),)
        return (_SUPPORTS[self.family],)

    @property
    def lattice(self) -> bool:
        """Whether every value is an integer."""
        return self.family.endswith("geometric") or self.count > 0

    def intersect(self, one: Any, other: Any) -> Any:
        """The intersection of two cells; empty (false) if they are disjoint."""
        if one is other:
            return one
        pairs = ((max(a, c), min(b, d)) for a, b in one for c, d in other)
        return tuple((low, high) for low, high in pairs if low < high)

    def unite(self, one: Any, other: Any) -> Any:
        """The union of two disjoint cells."""
        combine: list[Interval] = []
        for low, high in sorted(one + other):
            if combine and combine[-1][1] >= low:
                combine[-1] = combine[-1][0], max(high, combine[-1][1])
            else:
                combine.append((low, high))
        return tuple(combine)

    def below(self, cell: Any, threshold: Any) -> tuple[Any, Any]:
        """The parts of a cell below and above a threshold."""
        parts = (-math.inf, threshold), (threshold, math.inf)
        return self.intersect(cell, parts[:1]), self.intersect(cell, parts[1:])

    def mass(self, cell: Any) -> Mass:
        """The probability of a cell."""
        if cell == self.domain:
            return Fraction(1)
        return sum((self.between(low, high) for low, high in cell), Fraction(0))

    def between(self, low: Any, high: Any) -> Mass:
        """The probability of an interval within the support."""
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
        """A value drawn from the distribution conditional on the cell."""
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

    def contains(self, cell: Any, value: Any) -> bool:
        """Whether ``value``, as ``draw`` returned it, lies in the cell."""
        return any(float(low) <= value <= float(high) for low, high in cell)

    def is_same(self, other: Any) -> bool:
        """Whether ``other`` is a draw from the same distribution."""
        mine = self.family, self.rate, self.count
        return isinstance(other, RealDraw) and mine == (other.family, other.rate, other.count)


Source = FiniteDraw | RealDraw

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


MAX_PATHS = 1 << 14
LEFT_OUT = 2.0**-100
MAX_STEPS = 3_000_000
"""Maximum number of steps for one input, with the work on values of open draws."""
MAX_SOURCES = 1 << 16
"""Maximum number of draws on one path."""
RUN, _DECISION = 200, 20
"""Steps that one run of the code costs, and steps that one decision costs."""
_TRIES, _MAX_DEPTH = 1000, 512
_CHANGED = "the function took another path with the same random draws: it depends on other state"


class NotTraced(Exception):
    """Signals code that is not followed: the message gives the reason, ``where`` the line."""

    def __init__(self, reason: str, where: str = "") -> None:
        super().__init__(reason)
        self.where = where

    def __str__(self) -> str:
        return f"{self.args[0]}{self.where}"


class OutOfSteps(NotTraced):
    """Signals that one input takes more steps than its budget."""


class StateChanged(NotTraced):
    """Signals that a value which the code read has changed; running it again would not notice."""


class TooRare(Exception):
    """Signals a path rarer than 2^-100: its probability is left out."""


class StepBudget:
    """Number of steps that one input may take; it depends on the code alone, not on the machine."""

    def __init__(self, steps: int = MAX_STEPS) -> None:
        self.steps = self.remaining = steps

    def spend(self, steps: int = 1) -> None:
        """Subtracts steps; raises OutOfSteps if fewer remain."""
        self.remaining -= steps
        if self.remaining < 0:
            raise OutOfSteps(f"all paths of one input take more than {self.steps:,} steps")


class Path:
    """One run of the code: its draws, their cells so far, and the decisions it took.

    - ``decisions``: pairs (taken, options); the first ones are given, later ones take option 0.
    - ``sources``, ``values``: for a replay, the draws to expect and the value of each; draws are
      then plain numbers.
    - ``has_strayed``: whether a replay drew anything else, even if the code caught the exception.
    - ``eager``: whether the path decides on every discrete draw at once, for code that looks at
      types.
    - ``limits``: the cell of each source that a decision has restricted.
    - ``sums``: sources that stand for weighted sums of other sources.
    - ``used_up``: sources that no other operation may use.
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
        self.has_strayed = False
        self._share, self._decided = 1.0, 0

    def add(self, source: Source) -> Any:
        """Records a draw of ``source``; returns its value in a replay, None if it is open."""
        if len(self.sources) >= MAX_SOURCES:
            raise NotTraced(f"one call draws more than {MAX_SOURCES:,} random numbers")
        self.budget.spend()
        place = len(self.sources)
        self.sources.append(source)
        if self._expected is None or self.values is None:
            return None
        if place >= len(self._expected) or not source.is_same(self._expected[place]):
            self.has_strayed = True
            raise NotTraced(_CHANGED)
        return self.values[place]

    def decide(self, options: int) -> int:
        """The number of the option taken at this point of the code."""
        self.budget.spend(_DECISION)
        if self._decided >= _MAX_DEPTH:
            raise NotTraced(f"the code takes more than {_MAX_DEPTH} decisions on random draws")
        if self._decided == len(self.decisions):
            self.decisions.append((0, options))
        taken, known = self.decisions[self._decided]
        if known != options:
            raise NotTraced(_CHANGED)
        self._decided += 1
        return taken

    def decide_whole(self, source: RealDraw) -> None:
        """Decides on one value of geometric noise; values rarer than 2^-100 are left out."""
        half, last = Fraction(1, 2), math.ceil(-math.log(LEFT_OUT) / source.rate) + 1
        if last > MAX_PATHS:
            raise NotTraced(f"noise with more than {MAX_PATHS:,} values is added to other noise")
        ends = [-math.inf, *(k + half for k in range(-last - 1, last + 1)), math.inf]
        cell = self.limits.get(source, source.domain)
        parts = [source.intersect(cell, (interval,)) for interval in itertools.pairwise(ends)]
        parts = [part for part in parts if part and source.mass(part)]
        self.confine({source: parts[self.decide(len(parts))]})

    def confine(self, cells: dict[Source, Any]) -> None:
        """Restricts sources to these cells, which lie within their present cells.

        Raises LeftOut if the path becomes rarer than 2^-100.
        """
        for source, cell in cells.items():
            before = source.mass(self.limits.get(source, source.domain))
            self._share *= float(source.mass(cell) / before)
        self.limits.update(cells)
        self.changes += 1
        if self._share < LEFT_OUT:
            raise TooRare

    def add_up(self, total: Source, *parts: tuple[Source, float]) -> Source:
        """Replaces a weighted sum of sources by the source ``total``, and uses up its parts."""
        for known, before in self.sums.items():
            if before == parts:
                return known
        self.sums[total] = parts
        self.used_up.update(source for source, _ in parts)
        self.changes += 1
        return total

    def draw(self, rng: np.random.Generator, limits: dict[Source, Any]) -> Any:
        """Draws values of all sources given these limits; None if these are rarely satisfied."""
        for _ in range(_TRIES):
            values = {s: s.draw(limits.get(s, s.domain), rng) for s in self.sources}
            for total, parts in self.sums.items():
                values[total] = sum(weight * values[source] for source, weight in parts)
            if all(s.contains(limits[s], values[s]) for s in self.sums if s in limits):
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
    """Every path with the result of ``run`` on it, in the order of its decisions.

    The result is None for a path rarer than 2^-100, such as one through many turns of a loop.

    Raises NotTraced if there are too many paths, or if the code depends on more than its draws.
    """
    decisions: list[tuple[int, int]] = []
    for _ in range(MAX_PATHS):
        given = len(decisions)
        path = Path(decisions, budget=budget, eager=eager)
        budget.spend(RUN)
        try:
            output = run(path)
        except TooRare:
            yield path, None
        else:
            if path._decided < given:
                raise NotTraced(_CHANGED)
            yield path, output
        decisions = list(path.decisions)
        while decisions and decisions[-1][0] == decisions[-1][1] - 1:
            decisions.pop()
        if not decisions:
            return
        taken, options = decisions.pop()
        decisions.append((taken + 1, options))
    raise NotTraced(
        f"the random draws lead to more than {MAX_PATHS:,} paths. Replace if by numpy.where or "
        "by arithmetic on arrays, which need no separate paths"
    )
