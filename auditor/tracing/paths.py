"""Paths of a randomizer: what its coins decided, each path run from its beginning."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from fedrec_auditor.auditor.tracing.sources import Mass, Real, Source

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
