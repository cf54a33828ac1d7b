"""Base class of estimators, which bound epsilon from below by sampled outputs.

An estimator draws outputs of neighbouring inputs (worlds), counts events, and computes the lower
bound that the counts imply. Each subclass defines these three steps.
"""

from __future__ import annotations

import bisect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants import statements
from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements import Bound, Side, Witness, check_confidence
from fedrec_auditor.accountants.verdict import exceeds
from fedrec_auditor.auditor.worlds.worlds import Worlds

# Minimum number of draws per world, for every estimator.
MIN_SAMPLES = 10
_MAX_SAMPLES = 1 << 50


# Probabilities of k events in the first and in the second of two worlds, two arrays (k,). For a
# rule that guesses the world of each output, they are the shares of right and of wrong guesses.
EventRates = tuple[NDArray[np.float64], NDArray[np.float64]]
# Rates of a single event that always occurs in the first world and never in the second.
PERFECT_GUESS_RATES: EventRates = (np.ones(1), np.zeros(1))


class DrawPlan(NamedTuple):
    """Number of draws, delta and error of a measurement of a lower bound on epsilon.

    samples: number of draws per world (input).
    delta: delta of the bound.
    alpha: error of the bound, 1 minus its confidence.
    """

    samples: int
    delta: float
    alpha: float


class EpsilonBound(NamedTuple):
    """Lower bound on epsilon that follows from counts of events, with its distinguishing event.

    epsilon: the lower bound.
    largest_possible: the lower bound if all guesses of the input were right.
    witness: the event that distinguishes the inputs; None if no event was chosen.
    """

    epsilon: float
    largest_possible: float = math.inf
    witness: Witness | None = None


class BoundResult(NamedTuple):
    """Result of a measurement: its number of draws, and a function that computes its lower bound.

    n_draws: number of draws in all worlds (inputs) together.
    compute_bound: function from the error alpha (1 minus the confidence) to the bound.
    remark: text that is appended to the source of the bound.

    >>> result = BoundResult(100, lambda alpha: EpsilonBound(epsilon=-math.log(alpha)))
    >>> result.compute_bound(1.0)
    EpsilonBound(epsilon=-0.0, largest_possible=inf, witness=None)
    """

    n_draws: int
    compute_bound: Callable[[float], EpsilonBound]
    remark: str = ""


class Estimator(ABC):
    """Base class of methods that draw outputs of neighbouring inputs and bound epsilon from below.

    A subclass defines these members:

    - ``estimate``: draws outputs and counts events;
    - ``predict_bound``: computes the bound that expected counts imply;
    - ``reference``: citation of the theorem that proves the bound;
    - ``source`` (optional): text that reports print as the source of a bound.
    """

    @property
    @abstractmethod
    def reference(self) -> str:
        """Citation of the theorem that proves the lower bound on epsilon."""

    @property
    def source(self) -> str:
        """Text that reports print as the source of a bound: the method in words, by default its
        ``reference``.
        """
        return self.reference

    @abstractmethod
    def estimate(self, worlds: Worlds, request: DrawPlan, rng: np.random.Generator) -> BoundResult:
        """Draws outputs of ``worlds`` (neighbouring inputs) and counts the events that bound
        epsilon.

        request: number of draws per world, delta, and error of the bound.
        rng: random generator of the draws.
        """

    @abstractmethod
    def predict_bound(
        self, samples: int, rates: EventRates, *, delta: float, alpha: float
    ) -> float:
        """Predicts the lower bound on epsilon at ``delta`` if event counts equal their expectation.

        samples: number of draws in each of the two worlds (inputs).
        rates: probabilities of each event in the two worlds; the event with the largest bound is
            used.
        alpha: error of the bound, 1 minus its confidence.
        """

    def bound_by_perfect_guesses(self, samples: int, *, delta: float, alpha: float) -> float:
        """Returns the lower bound on epsilon for an event that occurs in every draw of one input
        and in no draw of another.

        samples: number of draws per input.
        delta: delta of the bound.
        alpha: error of the bound, 1 minus its confidence.
        """
        return self.predict_bound(samples, PERFECT_GUESS_RATES, delta=delta, alpha=alpha)

    def measure_bounds(
        self,
        worlds: Worlds,
        *,
        delta: float,
        confidences: Sequence[float],
        samples: int,
        rng: np.random.Generator,
    ) -> tuple[Bound, ...]:
        """Returns lower bounds on epsilon at ``delta`` from the same draws, one per confidence.

        worlds: the neighbouring inputs and functions that draw their outputs.
        confidences: confidence of each bound. The first one determines the decision rule.
        samples: number of draws per world, including the draws that select a decision rule; ignored
            for stored outputs, which are all used.
        rng: random generator of the draws.

        Raises InputError for outputs that the estimator cannot use, for fewer than ``MIN_SAMPLES``
        samples, and for an invalid delta or confidence.
        """
        errors = [1 - check_confidence(confidence) for confidence in confidences]
        request = DrawPlan(check_samples(samples), statements.check_delta(delta), errors[0])
        observation = self.estimate(worlds, request, rng)
        limits = map(observation.compute_bound, errors)
        return tuple(
            Bound(
                epsilon=epsilon,
                delta=delta,
                side=Side.LOWER,
                scope=worlds.scope,
                source=f"{self.source}{observation.remark}",
                confidence=confidence,
                samples=observation.n_draws,
                largest=largest,
                witness=witness,
            )
            for confidence, (epsilon, largest, witness) in zip(confidences, limits, strict=True)
        )

    def measure_bound(self, worlds: Worlds, *, confidence: float, **asked: Any) -> Bound:
        """Returns the lower bound on epsilon at one ``confidence``.

        ``worlds``: the neighbouring inputs.
        ``asked``: the further arguments of ``measure_bounds``: delta, samples and rng.
        """
        (bound,) = self.measure_bounds(worlds, confidences=(confidence,), **asked)
        return bound

    def find_max_bound(self, samples: int, *, delta: float, confidence: float) -> float:
        """Returns the lower bound on epsilon that ``samples`` draws per world (input) give if every
        output reveals its world.

        The estimator ``JointBinomial`` can exceed this bound slightly for outputs with very many
        entries.
        """
        alpha, delta = 1 - check_confidence(confidence), statements.check_delta(delta)
        return self.bound_by_perfect_guesses(check_samples(samples), delta=delta, alpha=alpha)

    def find_min_samples(self, epsilon: float, *, delta: float, confidence: float) -> int | None:
        """Returns the smallest number of draws per world for which ``find_max_bound`` exceeds
        ``epsilon``.

        A world is one of the neighbouring inputs. The result is None if more than 2^50 draws would
        be needed.
        """
        statements.check_epsilon(epsilon)

        def enough(samples: int) -> bool:
            """Checks whether ``samples`` draws can give a bound above ``epsilon``."""
            bound = self.find_max_bound(samples, delta=delta, confidence=confidence)
            return exceeds(bound, epsilon)

        return search_min_samples(enough, _MAX_SAMPLES)


def search_min_samples(enough: Callable[[int], bool], max_samples: int) -> int | None:
    """Returns the smallest number of samples, from ``MIN_SAMPLES`` on, that is ``enough``.

    enough: function that checks whether a number of samples suffices. If a number suffices, all
        larger numbers must suffice.
    max_samples: limit of the search, which doubles the number. The result is None if the doubled
        number exceeds the limit.
    """
    samples = MIN_SAMPLES
    while not enough(samples):
        samples *= 2
        if samples > max_samples:
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
