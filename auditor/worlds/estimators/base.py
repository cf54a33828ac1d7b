"""Base class of estimators: a member defines its rule and limit; all else is here."""

from __future__ import annotations

import bisect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements import (
    Bound,
    Side,
    Witness,
    check_confidence,
    check_delta,
    check_epsilon,
)
from fedrec_auditor.accountants.verdict import exceeds
from fedrec_auditor.auditor.worlds.worlds import Worlds

MIN_SAMPLES = 10
"""Fewest draws per world, for every estimator."""
_MOST_SAMPLES = 1 << 50


Rates = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Probabilities (k,) of k events in one world and in another. If the second world has such events
too: shares of right and of wrong guesses of a rule that guesses the world of the event."""
NOISELESS: Rates = (np.ones(1), np.zeros(1))
"""Rates of an event that always occurs in one world, and never in the other."""


class Request(NamedTuple):
    """A request for a bound at ``delta`` from ``samples`` draws per world, with error ``alpha``."""

    samples: int
    delta: float
    alpha: float


class Limit(NamedTuple):
    """A lower bound on epsilon from counts.

    epsilon: the bound.
    largest: the bound if every guess were right.
    witness: the distinguishing event.
    """

    epsilon: float
    largest: float = math.inf
    witness: Witness | None = None


class Observation(NamedTuple):
    """Counts from draws, in the form of the bound that they imply.

    draws: number of draws of all worlds.
    limit: computes the bound at a given error.
    remark: text that is appended to the source of the bound.

    >>> Observation(100, lambda alpha: Limit(epsilon=-math.log(alpha))).limit(1.0)
    Limit(epsilon=-0.0, largest=inf, witness=None)
    """

    draws: int
    limit: Callable[[float], Limit]
    remark: str = ""


class Estimator(ABC):
    """Draws from worlds, and bounds epsilon from below at the stated confidence.

    A member defines how it draws and counts (``look``), the limit at expected counts
    (``expected_limit``), the theorem of the bound (``reference``) and the words for the method
    (``source``).
    """

    @property
    @abstractmethod
    def reference(self) -> str:
        """The theorem on which the bound rests."""

    @property
    def source(self) -> str:
        """The method of the bound, in words."""
        return self.reference

    @abstractmethod
    def look(self, worlds: Worlds, request: Request, rng: np.random.Generator) -> Observation:
        """Draws from worlds and counts events of a rule, which these or separate draws selected."""

    @abstractmethod
    def expected_limit(self, samples: int, rates: Rates, *, delta: float, alpha: float) -> float:
        """The limit at ``alpha`` if ``samples`` draws per world turn out as expected.

        There are two worlds and events with these ``rates``; the rule uses the best event.
        """

    def largest_limit(self, samples: int, *, delta: float, alpha: float) -> float:
        """The limit at ``alpha`` if ``samples`` draws per world never occur in the other world."""
        return self.expected_limit(samples, NOISELESS, delta=delta, alpha=alpha)

    def bounds(
        self,
        worlds: Worlds,
        *,
        delta: float,
        confidences: Sequence[float],
        samples: int,
        rng: np.random.Generator,
    ) -> tuple[Bound, ...]:
        """Lower bounds on epsilon at ``delta`` from the same draws, one for each confidence.

        ``samples`` are the draws per world, including draws that select the rule; stored outputs
        are all used, for any numbers per world. The rule is selected for the first confidence, and
        each bound holds at its own confidence. Draws are streamed: memory does not grow with
        ``samples``. InputError for outputs that the estimator cannot use, for fewer than
        ``MIN_SAMPLES`` samples, and for an invalid delta or confidence.
        """
        errors = [1 - check_confidence(confidence) for confidence in confidences]
        request = Request(check_samples(samples), check_delta(delta), errors[0])
        observation = self.look(worlds, request, rng)
        limits = map(observation.limit, errors)
        return tuple(
            Bound(
                epsilon=epsilon,
                delta=delta,
                side=Side.LOWER,
                scope=worlds.scope,
                source=f"{self.source}{observation.remark}",
                confidence=confidence,
                samples=observation.draws,
                largest=largest,
                witness=witness,
            )
            for confidence, (epsilon, largest, witness) in zip(confidences, limits, strict=True)
        )

    def bound(self, worlds: Worlds, *, confidence: float, **asked: Any) -> Bound:
        """The lower bound at one ``confidence``; the other arguments are those of ``bounds``."""
        (bound,) = self.bounds(worlds, confidences=(confidence,), **asked)
        return bound

    def largest(self, samples: int, *, delta: float, confidence: float) -> float:
        """The largest bound that ``samples`` draws per world can give: of worlds without noise."""
        alpha = 1 - check_confidence(confidence)
        return self.largest_limit(check_samples(samples), delta=check_delta(delta), alpha=alpha)

    def needed(self, epsilon: float, *, delta: float, confidence: float) -> int | None:
        """Fewest draws per world whose lower bound can exceed ``epsilon``; None above 2^50."""
        check_epsilon(epsilon)
        return fewest_samples(
            lambda samples: exceeds(
                self.largest(samples, delta=delta, confidence=confidence), epsilon
            ),
            _MOST_SAMPLES,
        )


def fewest_samples(enough: Callable[[int], bool], most: int) -> int | None:
    """The smallest number of samples for which ``enough`` is true; None above ``largest_limit``.

    ``enough`` must stay true for larger numbers.
    """
    samples = MIN_SAMPLES
    while not enough(samples):
        samples *= 2
        if samples > most:
            return None
    least = max(MIN_SAMPLES, samples // 2)
    return bisect.bisect_left(range(samples), True, lo=least, key=enough)


def check_samples(samples: int) -> int:
    """Returns ``samples`` if they are enough for any estimator; InputError otherwise."""
    if samples < MIN_SAMPLES:
        raise InputError(
            f"Expected samples of at least {MIN_SAMPLES}, got samples={samples!r}. Draw more."
        )
    return samples
