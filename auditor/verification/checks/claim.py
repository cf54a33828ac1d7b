"""When a check may accuse: what was seen is impossible for an honest mechanism, or nearly so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements.bound import Bound, Side, Witness
from fedrec_auditor.auditor.worlds.guesses import (
    clopper_pearson_lower,
    event_epsilon,
)
from fedrec_auditor.auditor.worlds.sampler import ONE_REPORT

FALSE_ALARM = 1e-6
"""The largest probability that one check accuses a mechanism that keeps its claim."""


def words(value: Any, most: int = 60) -> str:
    """An input or an output, as short as a sentence bears."""
    if isinstance(value, (np.generic, np.ndarray)):
        value = value.tolist()
    text = " ".join(repr(value).split())
    return text if len(text) <= most else text[: most - 4] + " ..."


@dataclass(frozen=True, slots=True)
class Event:
    """An event of outputs, which was chosen before the draws were seen on which it is counted.

    It came ``hits`` times in ``trials`` draws for the first of two ``inputs``, and ``misses`` times
    in as many for the second.
    """

    name: str
    inputs: tuple[Any, Any]
    hits: int
    misses: int
    trials: int

    def __str__(self) -> str:
        """All of it, as the beginning of a sentence."""
        one, other = map(words, self.inputs)
        return (
            f"{self.name[:1].upper()}{self.name[1:]} came {self.hits} times in {self.trials} draws "
            f"for the input {one}, and {self.misses} times for {other}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimUnderTest:
    """(epsilon, delta), held against events in ``tests`` tests that share ``FALSE_ALARM``."""

    epsilon: float
    delta: float
    tests: int = 1

    def shared(self, tests: int) -> ClaimUnderTest:
        """The same claim, held against so many tests together."""
        return replace(self, tests=tests)

    @property
    def alpha(self) -> float:
        """The probability with which one test may err."""
        return FALSE_ALARM / self.tests

    def certified(self, hits: int, trials: int, misses: int, others: int) -> float:
        """Least epsilon that explains ``hits`` of ``trials``, ``misses`` of ``others``."""
        return float(
            event_epsilon(hits, trials, misses, others, delta=self.delta, alpha=self.alpha)
        )

    def refuted(self, hits: int, trials: int, misses: int, others: int) -> bool:
        """Whether no mechanism that keeps the claim would show these counts."""
        return self.certified(hits, trials, misses, others) > self.epsilon

    def refuted_by(self, event: Event) -> bool:
        """Whether no mechanism that keeps the claim would show this event so often."""
        return self.refuted(event.hits, event.trials, event.misses, event.trials)

    def impossible(self, hits: int, trials: int) -> bool:
        """Whether an event that cannot happen under the other input is too likely here."""
        return self.share(hits, trials) > self.delta

    def share(self, hits: int, trials: int) -> float:
        """Lower confidence limit of an event's probability."""
        return float(clopper_pearson_lower(hits, trials, self.alpha))

    def bound(self, event: Event, *, epsilon: float | None = None) -> Bound:
        """The bound that an event shows.

        Two Clopper-Pearson limits at the error of a check, or ``epsilon`` where more than the
        counts is known of the event.
        """
        hits, misses, trials = event.hits, event.misses, event.trials
        one, other = map(words, event.inputs)
        return Bound(
            epsilon=self.certified(hits, trials, misses, trials) if epsilon is None else epsilon,
            delta=self.delta,
            side=Side.LOWER,
            scope=ONE_REPORT,
            source="an event that other draws chose",
            confidence=1.0 - FALSE_ALARM,
            samples=2 * trials,
            witness=Witness(
                input_a=one,
                input_b=other,
                output=event.name,
                probability_a=hits / trials,
                probability_b=misses / trials,
                note=f"shares seen: {hits} of {trials} draws against {misses} of {trials}",
            ),
        )

    def reach(self, trials: int) -> float:
        """The largest epsilon that ``trials`` draws of each of two inputs could refute."""
        return self.certified(trials, trials, 0, trials)


def stacked(draws: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Draws of several inputs as one array (inputs, n, *output shape).

    InputError if the shapes differ, or words meet numbers.
    """
    shapes = sorted({array.shape for array in draws})
    if len(shapes) != 1 or len({array.dtype.kind in "US" for array in draws}) != 1:
        raise InputError(
            f"Expected outputs of one shape, got {shapes}. Return the same form for every input."
        )
    return np.stack(draws)
