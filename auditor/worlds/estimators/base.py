"""What every estimator offers: worlds to draw from in, a lower bound on epsilon out."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol

import numpy as np

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements.bound import Bound, check_delta, check_epsilon
from fedrec_auditor.accountants.verdict import exceeds
from fedrec_auditor.auditor.worlds.worlds import Worlds

FEWEST_SAMPLES = 10
"""Draws of each world that every estimator needs."""
_MOST_SAMPLES = 1 << 50


class Assumption(StrEnum):
    """What a bound is conditional on, beyond its confidence."""

    NONE = "nothing"
    PRIOR = "a prior, over which its confidence is an average"
    GAUSSIAN = "worlds that are as apart as two Gaussians of one deviation, at delta above 0"


class Estimator(Protocol):
    """Draws from worlds, and bounds epsilon from below at the stated confidence.

    Members inherit from this class, for ``bound`` and ``needed``; they write the rest. One whose
    bound is ``conditional`` names that in the assumptions of every bound.
    """

    @property
    def conditional(self) -> Assumption:
        """What its bounds rest on beside their confidence."""
        return Assumption.NONE

    @property
    def reference(self) -> str:
        """The theorem the bound rests on."""
        ...

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
        ...

    def largest(self, samples: int, *, delta: float, confidence: float) -> float:
        """The largest bound that so many draws of each world can show: of worlds without noise."""
        ...

    def bound(
        self,
        worlds: Worlds,
        *,
        delta: float,
        confidence: float,
        samples: int,
        rng: np.random.Generator,
    ) -> Bound:
        """The one lower bound at ``confidence``: see ``bounds``."""
        (found,) = self.bounds(
            worlds, delta=delta, confidences=(confidence,), samples=samples, rng=rng
        )
        return found

    def needed(self, epsilon: float, *, delta: float, confidence: float) -> int | None:
        """The fewest draws of each world that can show more than ``epsilon``; None above 2^50."""
        check_epsilon(epsilon)

        def shows(samples: int) -> bool:
            return exceeds(self.largest(samples, delta=delta, confidence=confidence), epsilon)

        enough = FEWEST_SAMPLES
        while not shows(enough):
            enough *= 2
            if enough > _MOST_SAMPLES:
                return None
        fewest = max(FEWEST_SAMPLES, enough // 2)
        return bisect.bisect_left(range(enough), True, lo=fewest, key=shows)


def check_positive_delta(delta: float) -> float:
    """Return ``delta`` in (0, 1), for estimators that are conditional on Gaussian worlds."""
    if check_delta(delta) == 0:
        raise InputError(
            "Expected delta above 0, got delta=0.0. Of Gaussians epsilon is infinite at 0: give "
            "the delta of the claim."
        )
    return delta


def check_samples(samples: int) -> int:
    """Return ``samples`` if they are enough for any estimator; InputError otherwise."""
    if samples < FEWEST_SAMPLES:
        raise InputError(
            f"Expected samples of at least {FEWEST_SAMPLES}, got samples={samples!r}. Draw more."
        )
    return samples
