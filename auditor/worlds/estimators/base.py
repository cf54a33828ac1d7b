"""Base class of estimators, which draw outputs of two worlds and return a lower bound on epsilon.

A member of the family defines how it draws, how it counts events, and the limit that the counts
imply.
"""

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

# Minimum number of draws per world, for every estimator.
MIN_SAMPLES = 10
_MOST_SAMPLES = 1 << 50


# Probabilities of k events in the first and in the second of two worlds, two arrays (k,). For a
# rule that guesses the world of each output, they are the shares of right and of wrong guesses.
Rates = tuple[NDArray[np.float64], NDArray[np.float64]]
# Rates of a single event that always occurs in the first world and never in the second.
NOISELESS_RATES: Rates = (np.ones(1), np.zeros(1))


class Request(NamedTuple):
    """Arguments of a measurement: ``samples`` draws per world, ``delta``, and the error ``alpha``.

    ``alpha`` is 1 minus the confidence of the bound.
    """

    samples: int
    delta: float
    alpha: float


class Limit(NamedTuple):
    """A lower bound on epsilon that follows from counts of events.

    epsilon: the lower bound.
    largest: the bound that would follow if every guess were right.
    witness: the distinguishing event; None if there is none.
    """

    epsilon: float
    largest: float = math.inf
    witness: Witness | None = None


class Observation(NamedTuple):
    """The counts of events in a measurement, held as a function that returns the bound they imply.

    draws: number of draws in all worlds together.
    bound_at: computes the bound for a given error alpha (1 minus the confidence).
    remark: text that is appended to the source of the bound.

    >>> Observation(100, lambda alpha: Limit(epsilon=-math.log(alpha))).bound_at(1.0)
    Limit(epsilon=-0.0, largest=inf, witness=None)
    """

    draws: int
    bound_at: Callable[[float], Limit]
    remark: str = ""


class Estimator(ABC):
    """Base class of methods that draw outputs of worlds and bound epsilon from below.

    A member defines how it draws and counts (``observe``), the limit that expected counts imply
    (``expected_limit``), the theorem of the bound (``reference``) and a description of the method
    (``source``).
    """

    @property
    @abstractmethod
    def reference(self) -> str:
        """Citation of the theorem that proves the bound."""

    @property
    def source(self) -> str:
        """Description of the method, which becomes the source of the bound."""
        return self.reference

    @abstractmethod
    def observe(self, worlds: Worlds, request: Request, rng: np.random.Generator) -> Observation:
        """Draws outputs of worlds and counts the events from which epsilon is bounded.

        request: number of draws per world, delta, and error of the bound.
        """

    @abstractmethod
    def expected_limit(self, samples: int, rates: Rates, *, delta: float, alpha: float) -> float:
        """Predicts the lower bound on epsilon at ``delta`` if event counts equal their expectation.

        samples: number of draws in each of the two worlds.
        rates: probabilities of each event in the two worlds; the event with the largest bound
            counts.
        alpha: error of the bound, 1 minus its confidence.
        """

    def largest_limit(self, samples: int, *, delta: float, alpha: float) -> float:
        """Returns the lower bound that ``samples`` draws per world give if the worlds never agree.

        In that case an event occurs in every draw of one world and never in the other. ``alpha`` is
        the error of the bound, 1 minus its confidence.
        """
        return self.expected_limit(samples, NOISELESS_RATES, delta=delta, alpha=alpha)

    def bounds(
        self,
        worlds: Worlds,
        *,
        delta: float,
        confidences: Sequence[float],
        samples: int,
        rng: np.random.Generator,
    ) -> tuple[Bound, ...]:
        """Returns lower bounds on epsilon at ``delta`` from the same draws, one per confidence.

        ``samples`` is the number of draws per world, including the draws that select a decision
        rule. Stored outputs are all used, whatever their number per world. The rule is selected for
        the first confidence, and each bound holds at its own confidence. Raises InputError for
        outputs that the estimator cannot use, for fewer than ``MIN_SAMPLES`` samples, and for an
        invalid delta or confidence.
        """
        errors = [1 - check_confidence(confidence) for confidence in confidences]
        request = Request(check_samples(samples), check_delta(delta), errors[0])
        observation = self.observe(worlds, request, rng)
        limits = map(observation.bound_at, errors)
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
        """Returns the lower bound on epsilon at one ``confidence``.

        The other arguments, ``asked``, are those of ``bounds``.
        """
        (bound,) = self.bounds(worlds, confidences=(confidence,), **asked)
        return bound

    def largest_bound(self, samples: int, *, delta: float, confidence: float) -> float:
        """Returns the largest lower bound that ``samples`` draws per world can give.

        Only worlds whose outputs always differ reach it.
        """
        alpha = 1 - check_confidence(confidence)
        return self.largest_limit(check_samples(samples), delta=check_delta(delta), alpha=alpha)

    def min_samples(self, epsilon: float, *, delta: float, confidence: float) -> int | None:
        """Returns the smallest number of draws per world whose lower bound can exceed ``epsilon``.

        The result is None if more than 2^50 draws would be needed.
        """
        check_epsilon(epsilon)
        return fewest_samples(
            lambda samples: exceeds(
                self.largest_bound(samples, delta=delta, confidence=confidence), epsilon
            ),
            _MOST_SAMPLES,
        )


def fewest_samples(enough: Callable[[int], bool], most: int) -> int | None:
    """Returns the smallest number of samples for which ``enough`` is true, or None.

    enough: whether a number of samples suffices; it must stay true for larger numbers.
    most: number of samples at which the search ends with None.
    """
    samples = MIN_SAMPLES
    while not enough(samples):
        samples *= 2
        if samples > most:
            return None
    least = max(MIN_SAMPLES, samples // 2)
    return bisect.bisect_left(range(samples), True, lo=least, key=enough)


def check_samples(samples: int) -> int:
    """Returns ``samples`` if it is at least ``MIN_SAMPLES``, and raises InputError otherwise."""
    if samples < MIN_SAMPLES:
        raise InputError(
            f"Expected samples of at least {MIN_SAMPLES}, got samples={samples!r}. Raise samples."
        )
    return samples
