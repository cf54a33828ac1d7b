"""The estimator: a rule and a limit are its own, and all else that it offers is here."""

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

FEWEST_SAMPLES = 10
"""Draws of each world that every estimator needs."""
_MOST_SAMPLES = 1 << 50


Rates = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Chances (k,) of events in one world and in another; where the second has such events of its own,
shares of right and of wrong guesses by a rule that guesses the world whose event shows."""
NOISELESS: Rates = (np.ones(1), np.zeros(1))
"""Of an event that shows in one world always, and in the other never."""


class Request(NamedTuple):
    """A bound at ``delta`` from ``samples`` draws of each world, chosen for the error ``alpha``."""

    samples: int
    delta: float
    alpha: float


class Limit(NamedTuple):
    """Epsilon is at least this; ``largest`` if every draw had told; the event that shows it."""

    epsilon: float
    largest: float = math.inf
    witness: Witness | None = None


class Observation(NamedTuple):
    """Counts from so many ``draws`` of all worlds, as a limit at an error; more on the source.

    >>> Observation(100, lambda alpha: Limit(epsilon=-math.log(alpha))).limit(1.0)
    Limit(epsilon=-0.0, largest=inf, witness=None)
    """

    draws: int
    limit: Callable[[float], Limit]
    remark: str = ""


class Estimator(ABC):
    """Draws from worlds, and bounds epsilon from below at the stated confidence.

    A member says how it draws (``look``), and which limit is to be expected (``foreseen``); all
    else is here. ``reference`` is the theorem that the bound rests on, ``source`` names its way.
    """

    @property
    @abstractmethod
    def reference(self) -> str:
        """The theorem the bound rests on."""

    @property
    def source(self) -> str:
        """The words that say how a bound was found."""
        return self.reference

    @abstractmethod
    def look(self, worlds: Worlds, asked: Request, rng: np.random.Generator) -> Observation:
        """Draw from worlds, by a rule that these or other draws chose, and count."""

    @abstractmethod
    def foreseen(self, samples: int, rates: Rates, *, delta: float, alpha: float) -> float:
        """The limit at ``alpha`` if ``samples`` draws of each world are as is to be expected.

        Of two worlds and events with these ``rates``, the best of which its rule looks at.
        """

    def most(self, samples: int, *, delta: float, alpha: float) -> float:
        """The limit at ``alpha`` if no draw of ``samples`` of each world is like the other's."""
        return self.foreseen(samples, NOISELESS, delta=delta, alpha=alpha)

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

        ``samples`` are the draws of each world, those that choose what to look at included; of
        stored outputs all are used, however many there are of either world. What is looked at is
        chosen for the first confidence; each bound holds at its own. Draws are streamed: memory
        does not grow with ``samples``. InputError for outputs of which the estimator can make
        nothing, fewer than ``FEWEST_SAMPLES`` samples, and a delta or a confidence that is none.
        """
        errors = [1 - check_confidence(confidence) for confidence in confidences]
        asked = Request(check_samples(samples), check_delta(delta), errors[0])
        seen = self.look(worlds, asked, rng)
        limits = map(seen.limit, errors)
        return tuple(
            Bound(
                epsilon=epsilon,
                delta=delta,
                side=Side.LOWER,
                scope=worlds.scope,
                source=f"{self.source}{seen.remark}",
                confidence=confidence,
                samples=seen.draws,
                largest=largest,
                witness=witness,
            )
            for confidence, (epsilon, largest, witness) in zip(confidences, limits, strict=True)
        )

    def bound(self, worlds: Worlds, *, confidence: float, **asked: Any) -> Bound:
        """The one lower bound at ``confidence``: see ``bounds``, whose arguments it has besides."""
        (found,) = self.bounds(worlds, confidences=(confidence,), **asked)
        return found

    def largest(self, samples: int, *, delta: float, confidence: float) -> float:
        """The largest bound that so many draws of each world can show: of worlds without noise."""
        alpha = 1 - check_confidence(confidence)
        return self.most(check_samples(samples), delta=check_delta(delta), alpha=alpha)

    def needed(self, epsilon: float, *, delta: float, confidence: float) -> int | None:
        """The fewest draws of each world that can show more than ``epsilon``; None above 2^50."""
        check_epsilon(epsilon)
        return fewest_samples(
            lambda samples: exceeds(
                self.largest(samples, delta=delta, confidence=confidence), epsilon
            ),
            _MOST_SAMPLES,
        )


def fewest_samples(enough: Callable[[int], bool], most: int) -> int | None:
    """The fewest samples that are ``enough``, if more always are; None above ``most``."""
    samples = FEWEST_SAMPLES
    while not enough(samples):
        samples *= 2
        if samples > most:
            return None
    least = max(FEWEST_SAMPLES, samples // 2)
    return bisect.bisect_left(range(samples), True, lo=least, key=enough)


def check_samples(samples: int) -> int:
    """Return ``samples`` if they are enough for any estimator; InputError otherwise."""
    if samples < FEWEST_SAMPLES:
        raise InputError(
            f"Expected samples of at least {FEWEST_SAMPLES}, got samples={samples!r}. Draw more."
        )
    return samples
