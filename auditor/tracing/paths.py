"""Execution paths of a randomizer: random draws, the values that they may have, and decisions.

Tracing runs the code once per path; a decision is a branch of the code that depends on a draw.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from scipy import special

# A source is one random draw. A cell is a set of values of this draw, with a known probability.
#
# A cell of a discrete source is a bit mask over its values. A cell of a real source is a tuple of
# disjoint intervals with exact ends. A branch of the program that depends on a draw restricts the
# draw to a cell.

# The two ends of an interval, each a Fraction or an infinite float.
Interval = tuple[Any, Any]
# A probability, exact if the draws allow it.
Probability = Fraction | float

_HALF = Fraction(1, 2)


@dataclass(frozen=True, slots=True, eq=False)
class FiniteDraw:
    """A random draw from finitely many values.

    A cell, a set of these values, is a bit mask: bit k stands for ``values[k]``.

    - ``name``: the call that draws, as reports show it, such as "integers(0, 6)".
    - ``values``: the possible values.
    - ``masses``: probability of each value; they sum to 1.
    """

    name: str
    values: tuple[Any, ...]
    masses: tuple[Probability, ...]

    @property
    def domain(self) -> int:
        """Bit mask of all values that the draw may take: bit k stands for ``values[k]``."""
        return (1 << len(self.values)) - 1

    @property
    def support_mask(self) -> int:
        """Bit mask of the values with positive probability: bit k stands for ``values[k]``."""
        return sum(1 << k for k, mass in enumerate(self.masses) if mass)

    def intersect_cells(self, one: Any, other: Any) -> Any:
        """Returns the intersection of two sets of values, each a bit mask; 0 if it is empty."""
        return one & other

    def unite_cells(self, one: Any, other: Any) -> Any:
        """Returns the union of two sets of values, each a bit mask."""
        return one | other

    def compute_mass(self, cell: Any) -> Probability:
        """Returns the probability that the draw lies in ``cell``, a set of values as a bit mask."""
        if cell == self.domain:
            return Fraction(1)
        return sum((self.masses[k] for k in _list_bits(cell)), Fraction(0))

    def sample_value(self, cell: Any, rng: np.random.Generator) -> Any:
        """Samples a value of this draw, given that it lies in ``cell``, a set of values as a bit
        mask.
        """
        share = rng.random() * float(self.compute_mass(cell))
        places = [k for k in _list_bits(cell) if self.masses[k]]
        for k in places:
            share -= float(self.masses[k])
            if share < 0.0:
                return self.values[k]
        return self.values[places[-1]]

    def cell_contains(self, cell: Any, value: Any) -> bool:
        """Whether the set ``cell``, a bit mask, contains ``value``, an object that ``sample_value``
        returned.
        """
        return any(self.values[k] is value for k in _list_bits(cell))

    def has_same_law(self, other: Any) -> bool:
        """Whether ``other`` is a draw with the same name and the same distribution."""
        return (
            isinstance(other, FiniteDraw)
            and self.name == other.name
            and self.masses == other.masses
            and len(self.values) == len(other.values)
        )


@dataclass(frozen=True, slots=True, eq=False)
class RealDraw:
    """A random draw of a real number or of an integer from a standard distribution.

    A cell, a set of values of the draw, is a tuple of disjoint intervals (low, high). For an
    integer draw, their ends lie between integers.

    - ``name``: the call that draws, as reports show it.
    - ``family``: "uniform" on [0, 1], "laplace", "exponential", "normal", "geometric" (1, 2, ...),
      "two-sided geometric", or "integers" (0, ..., ``n_values`` - 1, each equally likely).
    - ``geometric_rate``: decay rate of the geometric families; P(k) is proportional to e^(-rate
      |k|).
    - ``n_values``: number of values of "integers"; 0 for every other family.
    """

    name: str
    family: str
    geometric_rate: float = 0.0
    n_values: int = 0

    @property
    def domain(self) -> tuple[Interval, ...]:
        """Tuple of one interval, which contains all values of the draw."""
        if self.n_values:
            return ((-_HALF, self.n_values - _HALF),)
        return (_SUPPORTS[self.family],)

    @property
    def is_integer(self) -> bool:
        """Whether every value of the draw is an integer."""
        return self.family.endswith("geometric") or self.n_values > 0

    def intersect_cells(self, one: Any, other: Any) -> Any:
        """Returns the intersection of two sets of values, tuples of intervals; () if empty."""
        if one is other:
            return one
        pairs = ((max(a, c), min(b, d)) for a, b in one for c, d in other)
        return tuple((low, high) for low, high in pairs if low < high)

    def unite_cells(self, one: Any, other: Any) -> Any:
        """Returns the union of two disjoint sets of values, each a tuple of intervals."""
        combine: list[Interval] = []
        for low, high in sorted(one + other):
            if combine and combine[-1][1] >= low:
                combine[-1] = combine[-1][0], max(high, combine[-1][1])
            else:
                combine.append((low, high))
        return tuple(combine)

    def split_cell(self, cell: Any, threshold: Any) -> tuple[Any, Any]:
        """Splits ``cell``, a tuple of intervals, into its values below and above ``threshold``.

        For an integer draw, ``threshold`` must lie between integers.
        """
        parts = (-math.inf, threshold), (threshold, math.inf)
        return self.intersect_cells(cell, parts[:1]), self.intersect_cells(cell, parts[1:])

    def compute_mass(self, cell: Any) -> Probability:
        """Returns the probability that the draw lies in ``cell``, a tuple of intervals."""
        if cell == self.domain:
            return Fraction(1)
        return sum((self.compute_interval_mass(low, high) for low, high in cell), Fraction(0))

    def compute_interval_mass(self, low: Any, high: Any) -> Probability:
        """Returns the probability that the draw lies between ``low`` and ``high``.

        The interval must lie within the support of the distribution.
        """
        if self.family == "uniform":
            return Fraction(high) - Fraction(low)
        if self.n_values:
            return Fraction(math.ceil(high) - math.ceil(low), self.n_values)
        if self.is_integer:
            if low < 0 and high > _HALF:
                return sum(self.compute_interval_mass(*p) for p in ((low, _HALF), (_HALF, high)))
            if high < 1:
                low, high = -high, -low
            first, beyond = math.ceil(low), math.inf if math.isinf(high) else math.ceil(high)
            rate = self.geometric_rate
            if self.family != "geometric":
                tail = math.exp(-rate * first) * -math.expm1(-rate * (beyond - first))
                return tail / (1.0 + math.exp(-rate))
            return math.exp(-rate * (first - 1)) * -math.expm1(-rate * (beyond - first))
        a, b = float(low), float(high)
        if self.family == "normal":
            a, b = (a, b) if a + b <= 0 else (-b, -a)
            return float(special.ndtr(b) - special.ndtr(a))
        if a < 0.0 < b:
            return float(self.compute_interval_mass(low, 0) + self.compute_interval_mass(0, high))
        near, far = min(abs(a), abs(b)), max(abs(a), abs(b))
        half = 0.5 if self.family == "laplace" else 1.0
        return half * math.exp(-near) * -math.expm1(near - far)

    def sample_value(self, cell: Any, rng: np.random.Generator) -> Any:
        """Samples a value of this draw, given that it lies in ``cell``, a tuple of intervals."""
        low, high = cell[0]
        if len(cell) > 1:
            masses = np.asarray([float(self.compute_interval_mass(*interval)) for interval in cell])
            low, high = cell[rng.choice(len(cell), p=masses / masses.sum())]
        if self.n_values:
            return int(rng.integers(math.ceil(low), math.ceil(high), dtype=np.uint64))
        share, a, b = rng.random(), float(low), float(high)
        if self.family == "uniform":
            return a + share * (b - a)
        if self.family == "normal":
            left, right = float(special.ndtr(a)), float(special.ndtr(b))
            value = float(special.ndtri(left + share * (right - left)))
            return min(max(value, a), b) if math.isfinite(value) else _pick_in_tail(a, b)
        if a < 0.0 < b:
            left = float(
                self.compute_interval_mass(low, 0)
                / (self.compute_interval_mass(low, 0) + self.compute_interval_mass(0, high))
            )
            return self.sample_value(((low, 0),) if share < left else ((0, high),), rng)
        sign, near, far = (-1.0, -b, -a) if b <= 0.0 else (1.0, a, b)
        rate = self.geometric_rate if self.is_integer else 1.0
        if self.is_integer:
            near, far = math.ceil(near), far if math.isinf(far) else math.ceil(far)
        value = near - math.log1p(share * math.expm1(-rate * (far - near))) / rate
        return math.floor(value) if self.is_integer else sign * value

    def cell_contains(self, cell: Any, value: Any) -> bool:
        """Whether ``cell``, a tuple of intervals, contains the number ``value``."""
        return any(float(low) <= value <= float(high) for low, high in cell)

    def has_same_law(self, other: Any) -> bool:
        """Whether ``other`` is a draw from the same distribution."""
        law = self.family, self.geometric_rate, self.n_values
        same_type = isinstance(other, RealDraw)
        return same_type and law == (other.family, other.geometric_rate, other.n_values)


# A random draw of either kind.
Draw = FiniteDraw | RealDraw

_SUPPORTS: dict[str, Interval] = {
    "uniform": (Fraction(0), Fraction(1)),
    "laplace": (-math.inf, math.inf),
    "normal": (-math.inf, math.inf),
    "exponential": (Fraction(0), math.inf),
    "geometric": (_HALF, math.inf),
    "two-sided geometric": (-math.inf, math.inf),
}


def _pick_in_tail(low: float, high: float) -> float:
    """Returns a finite number within the interval from ``low`` to ``high``, in a far tail.

    One end of the interval may be infinite.
    """
    return low + 0.1 / abs(low) if math.isinf(high) else high - 0.1 / abs(high)


def _list_bits(cell: int) -> list[int]:
    return [k for k in range(cell.bit_length()) if cell >> k & 1]


# Maximum number of paths of one input.
MAX_PATHS = 1 << 14
# Probability below which a path is left out.
MIN_PATH_PROB = 2.0**-100
# Maximum number of interpreter steps for one input, over all its paths.
MAX_STEPS_PER_INPUT = 3_000_000
# Maximum number of random draws on one path.
MAX_DRAWS = 1 << 16
# Number of steps counted per run of the code, and number of steps counted per decision.
RUN_STEPS, _DECISION = 200, 20
_TRIES, _MAX_DEPTH = 1000, 512
_CHANGED = "the code took another path with the same draws: it depends on state such as a counter"


class NotTraced(Exception):
    """Raised if the code of a randomizer cannot be traced to an exact output distribution.

    The message gives the reason. ``where``: the line of the code, as text; empty if not known.
    """

    def __init__(self, reason: str, where: str = "") -> None:
        super().__init__(reason)
        self.where = where

    def __str__(self) -> str:
        return f"{self.args[0]}{self.where}"


class OutOfSteps(NotTraced):
    """Raised if tracing one input takes more interpreter steps than its ``StepBudget`` allows."""


class StateChanged(NotTraced):
    """Raised if a value outside of the traced call changed after the code read it.

    No second attempt at tracing follows this error, because it would not notice the change.
    """


class PathTooRare(Exception):
    """Raised on an execution path whose probability is below 2^-100, and which is left out."""


class StepBudget:
    """Number of steps of the tracing interpreter allowed for one input.

    The number of steps depends only on the code, not on the machine's speed.

    - ``steps``: the allowed number.
    - ``remaining``: number of steps that are left.
    """

    def __init__(self, steps: int = MAX_STEPS_PER_INPUT) -> None:
        self.steps = self.remaining = steps

    def spend(self, steps: int = 1) -> None:
        """Subtracts ``steps`` from the budget; raises OutOfSteps if fewer remain."""
        self.remaining -= steps
        if self.remaining < 0:
            raise OutOfSteps(f"the code needs more than {self.steps:,} steps of tracing")


class ExecutionPath:
    """One run of the traced code: its random draws, their allowed values, and its decisions.

    A decision is a branch of the code that depends on a random draw. A cell is a set of values of a
    draw. A replay is a run that is given the expected draws (argument ``expected``) and their
    ``values``.

    - ``decisions``: for each decision, a pair (index of the option taken, number of options). The
      first pairs are given; later decisions take option 0.
    - ``budget``: counter of the interpreter steps that remain for all runs on one input.
    - ``eager``: whether each discrete draw is fixed to one value when it is made. If false, its
      value stays open until a branch depends on it.
    - ``draws``: the random draws so far.
    - ``limits``: the cell of each draw that a decision has restricted.
    - ``sums``: for each draw that stands for a weighted sum of other draws, these draws and their
      weights.
    - ``used_up``: draws that no other operation may use, because they are part of a sum or a seed.
    - ``changes``: number of changes of ``limits``, ``sums`` and ``used_up`` so far.
    - ``has_strayed``: whether a replay made a draw that was not expected.
    """

    def __init__(
        self,
        decisions: list[tuple[int, int]],
        *,
        budget: StepBudget,
        eager: bool = False,
        expected: list[Draw] | None = None,
        values: list[Any] | None = None,
    ) -> None:
        self.decisions, self.budget, self.eager = decisions, budget, eager
        self.values, self._expected = values, expected
        self.draws: list[Draw] = []
        self.limits: dict[Draw, Any] = {}
        self.sums: dict[Draw, tuple[tuple[Draw, float], ...]] = {}
        self.used_up: set[Draw] = set()
        self.changes = 0
        self.has_strayed = False
        self._share, self._decided = 1.0, 0

    def replay_or_record_draw(self, source: Draw) -> Any:
        """Records the random draw ``source``; returns its value in a replay, otherwise None.

        A replay is a run with given values of the draws. Raises NotTraced if there are too many
        draws, or if the replay expected another draw.
        """
        if len(self.draws) >= MAX_DRAWS:
            raise NotTraced(f"one call of the code draws more than {MAX_DRAWS:,} random numbers")
        self.budget.spend()
        place = len(self.draws)
        self.draws.append(source)
        if self._expected is None or self.values is None:
            return None
        if place >= len(self._expected) or not source.has_same_law(self._expected[place]):
            self.has_strayed = True
            raise NotTraced(_CHANGED)
        return self.values[place]

    def take_option(self, n_options: int) -> int:
        """Returns the index of the option that this path takes at the current branch of the code.

        ``n_options``: number of options. Raises NotTraced if there are too many branches, or if
        the number of options differs from an earlier run with the same decisions.
        """
        self.budget.spend(_DECISION)
        if self._decided >= _MAX_DEPTH:
            raise NotTraced(f"one call of the code branches on draws more than {_MAX_DEPTH} times")
        if self._decided == len(self.decisions):
            self.decisions.append((0, n_options))
        taken, known = self.decisions[self._decided]
        if known != n_options:
            raise NotTraced(_CHANGED)
        self._decided += 1
        return taken

    def fix_geometric_draw(self, source: RealDraw) -> None:
        """Fixes ``source``, a geometric draw, to one of its values; other paths take other values.

        Values rarer than 2^-100 are left out. Raises NotTraced if there are too many values.
        """
        half, last = Fraction(1, 2), math.ceil(-math.log(MIN_PATH_PROB) / source.geometric_rate) + 1
        if last > MAX_PATHS:
            raise NotTraced(f"the code adds noise to a geometric draw of over {MAX_PATHS:,} values")
        ends = [-math.inf, *(k + half for k in range(-last - 1, last + 1)), math.inf]
        cell = self.limits.get(source, source.domain)
        parts = [source.intersect_cells(cell, (interval,)) for interval in itertools.pairwise(ends)]
        parts = [part for part in parts if part and source.compute_mass(part)]
        self.restrict_draws({source: parts[self.take_option(len(parts))]})

    def restrict_draws(self, cells: dict[Draw, Any]) -> None:
        """Restricts random draws to ``cells``, a smaller set of allowed values per draw.

        Raises PathTooRare if the probability of the path falls below 2^-100.
        """
        for source, cell in cells.items():
            before = source.compute_mass(self.limits.get(source, source.domain))
            self._share *= float(source.compute_mass(cell) / before)
        self.limits.update(cells)
        self.changes += 1
        if self._share < MIN_PATH_PROB:
            raise PathTooRare

    def merge_sum(self, total: Draw, *parts: tuple[Draw, float]) -> Draw:
        """Returns a single draw that stands for a weighted sum of random draws from now on.

        ``total``: the draw to return, unless an equal sum already has such a draw; then that draw
            is returned, and ``total`` is not used.
        ``parts``: each summed draw with its weight; no other operation may use these draws
            afterwards.
        """
        for known, before in self.sums.items():
            if before == parts:
                return known
        self.sums[total] = parts
        self.used_up.update(source for source, _ in parts)
        self.changes += 1
        return total

    def sample_draws(self, rng: np.random.Generator, limits: dict[Draw, Any]) -> Any:
        """Samples a value of every random draw of this path, and returns the values by draw.

        ``limits``: the allowed set of values of each draw; all values if a draw is missing.

        The result is None if 1,000 samples do not satisfy the limits on sums of draws.
        """
        for _ in range(_TRIES):
            values = {s: s.sample_value(limits.get(s, s.domain), rng) for s in self.draws}
            for total, parts in self.sums.items():
                values[total] = sum(weight * values[source] for source, weight in parts)
            if all(s.cell_contains(limits[s], values[s]) for s in self.sums if s in limits):
                return values
        return None

    @property
    def probability(self) -> Probability:
        """Probability that the random draws lead the traced code along this path."""
        weight: Probability = Fraction(1)
        for source, cell in self.limits.items():
            weight *= source.compute_mass(cell)
        return weight


def iterate_paths(
    run: Callable[[ExecutionPath], Any], *, budget: StepBudget, eager: bool
) -> Iterator[tuple[ExecutionPath, Any]]:
    """Runs the code on every execution path, and yields pairs (execution path, result of ``run``).

    ``run``: runs the code on a path and returns its output.
    ``budget``: steps allowed for all paths together.
    ``eager``: whether each path fixes each discrete draw when the draw is made.

    The result is None for a path of probability below 2^-100. Raises NotTraced if there are too
    many paths, or if the code depends on more than its draws.
    """
    decisions: list[tuple[int, int]] = []
    for _ in range(MAX_PATHS):
        given = len(decisions)
        path = ExecutionPath(decisions, budget=budget, eager=eager)
        budget.spend(RUN_STEPS)
        try:
            output = run(path)
        except PathTooRare:
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
        f"the random draws lead to more than {MAX_PATHS:,} paths. Replace each 'if' by numpy.where "
        "or by arithmetic on arrays, which do not branch"
    )
