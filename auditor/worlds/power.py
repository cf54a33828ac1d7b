"""How many draws would refute a claim that is wrong by a factor of two."""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy import special

from fedrec_auditor.accountants.losses.gaussian import gaussian_mu
from fedrec_auditor.accountants.statements.bound import Bound
from fedrec_auditor.accountants.statements.claim import Claim
from fedrec_auditor.accountants.statements.scope import Horizon
from fedrec_auditor.accountants.verdict import exceeds
from fedrec_auditor.auditor.worlds.estimators.base import FEWEST_SAMPLES
from fedrec_auditor.auditor.worlds.estimators.parts.guess_counts import (
    failure_mass,
    joint_binomial_epsilon,
)
from fedrec_auditor.auditor.worlds.estimators.parts.selection_split import split_size

FACTOR = 2.0
"""How many times its claim the system spends that draws are to refute."""
_REFERENCE_DELTA = 1e-5
"""At which Gaussian noise spends so much, where the claim is of delta 0: there it spends more."""
_MOST_DRAWS = 10**9
_ABSTAIN = np.linspace(0.0, 8.0, 161)
"""Deviations from the middle within which a guesser of Gaussian noise abstains."""

_Rates = tuple[NDArray[np.float64], NDArray[np.float64]]


def _randomized_response(epsilon: float, delta: float) -> _Rates:
    """Right and wrong guesses, as shares of all draws, of the pair that is easiest to refute."""
    right = special.expit(epsilon)
    return np.array([right]), np.array([1.0 - right])


def _gaussian(epsilon: float, delta: float) -> _Rates:
    """The same of two normal distributions, for guessers that abstain near the middle."""
    mu = gaussian_mu(epsilon, delta or _REFERENCE_DELTA)
    return special.ndtr(mu / 2 - _ABSTAIN), special.ndtr(-mu / 2 - _ABSTAIN)


@dataclass(frozen=True, slots=True)
class Power:
    """About how many draws of each world refute a claim of half the epsilon that is spent.

    ``response`` are those for randomized response, which is told most easily; ``gaussian`` for
    Gaussian noise, which the sum of many small losses (a training) comes near. None above 10^9.
    Of the default estimator, with the best rule known and counts as expected.
    """

    response: int | None
    gaussian: int | None

    @classmethod
    @cache
    def of(cls, epsilon: float, *, delta: float, confidence: float) -> Power:
        """For a claim of ``epsilon``, positive and finite, judged at ``delta``."""
        fewest = (
            _fewest(rates(FACTOR * epsilon, delta), epsilon, delta, 1.0 - confidence)
            for rates in (_randomized_response, _gaussian)
        )
        return cls(*fewest)

    @classmethod
    def against(cls, epsilon: float, shown: Bound | None) -> Power | None:
        """Of what was measured; None where nothing was, or the claim is 0 or infinite."""
        if shown is None or shown.confidence == 1.0 or not 0.0 < epsilon < math.inf:
            return None
        return cls.of(epsilon, delta=shown.delta, confidence=shown.confidence)

    def __str__(self) -> str:
        return (
            f"a system that spends twice the claim is refuted by about {_count(self.response)} "
            f"draws of each world if it is randomized response, by {_count(self.gaussian)} if it "
            "is Gaussian noise"
        )


def too_few_trainings(claim: Claim, measured: Sequence[Bound]) -> str:
    """Why no measurement of trainings could refute half of what is spent; "" if one could.

    The losses of many rounds add up to nearly Gaussian ones, so these decide. What was measured of
    a message or a round is no measurement of trainings, however many draws it took.
    """
    why = ""
    for bound in measured:
        if bound.scope.horizon is not Horizon.TRAINING:
            continue
        power, draws = Power.against(claim.epsilon, bound), bound.samples or 0
        if power is None or (power.gaussian or math.inf) <= draws // 2:
            return ""
        why = f"{draws:,} draws of trainings are too few to tell: as often as not, {power}."
    return why


def _fewest(rates: _Rates, epsilon: float, delta: float, alpha: float) -> int | None:
    """The fewest draws of each world whose expected counts show more than ``epsilon``."""
    right, wrong = rates

    def refuted(samples: int) -> bool:
        guesses = 2 * (samples - split_size(samples))
        revealed, left = failure_mass(guesses, both=True, delta=delta, alpha=alpha)
        shown = joint_binomial_epsilon(guesses * right, guesses * wrong, revealed, left)
        return exceeds(float(shown.max()), epsilon)

    enough = FEWEST_SAMPLES
    while not refuted(enough):
        enough *= 2
        if enough > _MOST_DRAWS:
            return None
    return bisect.bisect_left(range(enough), True, lo=max(FEWEST_SAMPLES, enough // 2), key=refuted)


def _count(draws: int | None) -> str:
    """The number to two digits, rounded up: counts vary."""
    if draws is None:
        return "more than 10^9"
    unit = 10 ** max(0, len(str(draws)) - 2)
    return f"{math.ceil(draws / unit) * unit:,}"
