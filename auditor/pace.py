"""The time left: what steps are thought to cost, corrected by what finished ones took."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

_PRIOR = 30.0
"""Seconds that must have been seen of a target or a kind to believe half of what they tell."""
_FIRST = 0.05
"""The share of a loop that must be done to believe half of what it tells of its end."""
_LATE = 0.3
"""A step that is late takes so much of its time again."""


class TimedStep(NamedTuple):
    """One kind of work on one target."""

    target: str
    kind: str


class Pace:
    """The time left of steps that workers take in jobs, and of others before and after, in turn.

    ``costs`` are rough seconds. They are wrong by a factor that all steps share, one of the target
    and one of the kind, fitted to what finished steps took and shrunk towards 1. Steps of which
    nothing is known are charged all the same, so that there is a time left from the beginning; one
    that is late moves the end on. Kinds that are ``apart`` tell of their own steps only: what a
    training takes says nothing of attacks on it.

    >>> one, two = TimedStep("fcf", "bounds"), TimedStep("fcf", "attack")
    >>> pace = Pace([[one, two]], {one: 1.0, two: 60.0}, workers=2)
    >>> pace.left(0.0)
    61.0
    >>> pace.begin(one, 0.0), pace.finish(one, 1.0), pace.begin(two, 1.0)
    (None, None, None)
    >>> pace.left(31.0)
    30.0
    """

    def __init__(
        self,
        jobs: Sequence[Sequence[TimedStep]],
        costs: Mapping[TimedStep, float],
        *,
        workers: int,
        before: Sequence[TimedStep] = (),
        after: Sequence[TimedStep] = (),
        apart: Collection[str] = (),
    ) -> None:
        self._jobs, self._before, self._after = jobs, before, after
        self._apart = apart
        self._costs, self._workers = costs, max(workers, 1)
        self._took: dict[TimedStep, float] = {}
        self._begun: dict[TimedStep, float] = {}
        self._share: dict[TimedStep, float] = {}
        self._all = 1.0
        self._targets: dict[str, float] = {}
        self._kinds: dict[str, float] = {}

    def begin(self, step: TimedStep, now: float) -> None:
        """A step has begun."""
        self._begun[step] = now

    def reach(self, step: TimedStep, share: float) -> None:
        """So much of a step is done, as its own loop counts."""
        self._share[step] = share

    def finish(self, step: TimedStep, seconds: float) -> None:
        """A step took so long."""
        self._took[step] = seconds
        self._fit()

    def left(self, now: float) -> float:
        """Seconds until all steps have finished."""
        jobs = [sum(self._remains(step, now) for step in job) for job in self._jobs]
        running = [any(step in self._begun for step in job) for job in self._jobs]
        free = [0.0] * self._workers
        for _, seconds in sorted(zip(running, jobs, strict=True), key=lambda each: not each[0]):
            heapq.heapreplace(free, free[0] + seconds)
        alone = (*self._before, *self._after)
        return max(free) + sum(self._remains(step, now) for step in alone)

    def _remains(self, step: TimedStep, now: float) -> float:
        if step in self._took:
            return 0.0
        cost = self._cost(step)
        if step not in self._begun:
            return cost
        spent, share = now - self._begun[step], self._share.get(step, 0.0)
        if share > 0.0:
            told = share / (share + _FIRST)
            cost = (1.0 - told) * cost + told * spent / share
        return max(cost - spent, _LATE * spent * (1.0 - share))

    def _fit(self) -> None:
        """Fit the factors to what finished, each in turn to what those before it leave."""
        self._all, self._targets, self._kinds = 1.0, {}, {}
        alike = [step for step in self._took if step.kind not in self._apart]
        self._all = self._ratios(alike, lambda step: "").get("", 1.0)
        self._targets = self._ratios(alike, lambda step: step.target)
        self._kinds = self._ratios(self._took, lambda step: step.kind)

    def _ratios(
        self, steps: Iterable[TimedStep], name: Callable[[TimedStep], str]
    ) -> dict[str, float]:
        """Seconds over what is thought now, of finished steps of each name, shrunk towards 1."""
        sums: dict[str, tuple[float, float]] = {}
        for step in steps:
            told, thought = sums.get(name(step), (_PRIOR, _PRIOR))
            sums[name(step)] = told + self._took[step], thought + self._cost(step)
        return {key: told / thought for key, (told, thought) in sums.items()}

    def _cost(self, step: TimedStep) -> float:
        cost = self._costs[step] * self._kinds.get(step.kind, 1.0)
        if step.kind in self._apart:
            return cost
        return cost * self._all * self._targets.get(step.target, 1.0)
