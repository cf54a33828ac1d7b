"""A clock that may stop a game, and never says how many runs it has."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedrec_auditor.auditor.games.canary_game import FEWEST_RUNS, SECONDS, Played
from fedrec_auditor.auditor.games.draws import Parallel

BUDGET = 4 * SECONDS
"""Seconds after which the runs of a setting stop, where nobody says how many they are."""


class Stopped(Exception):
    """A game whose time is over."""


@dataclass(frozen=True, slots=True)
class Clock:
    """The seconds that the runs of a setting may take, and as many again once they are over."""

    seconds: float
    begun: float

    @classmethod
    def of(cls, seconds: float) -> Clock:
        """A clock of so many seconds from now."""
        return cls(seconds, time.monotonic())

    def stopping(self, parallel: Parallel, *, again: bool) -> Parallel:
        """``parallel``, which ends with ``Stopped`` where another call is to be made too late."""
        until = self.begun + self.seconds * (1 + again)

        def limited(function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> Any:
            if arguments and time.monotonic() > until:
                raise Stopped
            for number, found in enumerate(parallel(function, arguments), 1):
                yield found
                if number < len(arguments) and time.monotonic() > until:
                    raise Stopped

        return limited


def in_time(
    playing: Callable[..., Played],
    rng: Callable[[], np.random.Generator],
    runs: int,
    parallel: Parallel,
    clock: Clock,
) -> tuple[Played | None, int]:
    """What a game shows by all ``runs``, or by fewer once it is stopped; and by how many.

    The clock stops a game and never says how many runs it has: one that is stopped begins again
    with few, and goes on with twice as many as long as there is time. What is drawn already costs
    nothing. So the numbers are those of a plan with so many runs.
    """
    with suppress(Stopped):
        return playing(runs=runs, parallel=clock.stopping(parallel, again=False), rng=rng()), runs
    found, made, count = None, 0, FEWEST_RUNS
    with suppress(Stopped):
        while count < runs:
            found = playing(runs=count, parallel=clock.stopping(parallel, again=True), rng=rng())
            made, count = count, 2 * count
    return found, made
