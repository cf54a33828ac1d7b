"""How many draws would refute a claim that is wrong by a factor of two."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy import special

from fedrec_auditor.accountants.losses.gaussian import gaussian_mu
from fedrec_auditor.accountants.statements.bound import Bound
from fedrec_auditor.accountants.statements.claim import Claim
from fedrec_auditor.accountants.statements.scope import Horizon
from fedrec_auditor.accountants.verdict import exceeds
from fedrec_auditor.auditor.worlds.estimators.base import Rates, RuleAndLimit, fewest_samples
from fedrec_auditor.auditor.worlds.estimators.joint_binomial import JointBinomial

_DEFAULT = JointBinomial()
FACTOR = 2.0
"""How many times its claim the system spends that draws are to refute."""
_REFERENCE_DELTA = 1e-5
"""At which Gaussian noise spends so much, where the claim is of delta 0: there it spends more."""
_MOST_DRAWS = 10**9
_ABSTAIN = np.linspace(0.0, 8.0, 161)
"""Deviations from the middle within which a guesser of Gaussian noise abstains."""


def _randomized_response(epsilon: float, delta: float) -> Rates:
    """The answer, of the pair that is easiest to refute."""
    right = special.expit(epsilon)
    return np.array([right]), np.array([1.0 - right])


def _gaussian(epsilon: float, delta: float) -> Rates:
    """Of two normal distributions, what lies beyond the middle by so much, or more."""
    mu = gaussian_mu(epsilon, delta or _REFERENCE_DELTA)
    return special.ndtr(mu / 2 - _ABSTAIN), special.ndtr(-mu / 2 - _ABSTAIN)


@dataclass(frozen=True, slots=True)
class Power:
    """About how many draws of each world refute a claim of half the epsilon that is spent.

    ``response`` are those for randomized response, which is told most easily; ``gaussian`` for
    Gaussian noise, which the sum of many small losses (a training) comes near. None above 10^9.
    By the default estimator or another, with the best rule known and counts as expected.
    """

    response: int | None
    gaussian: int | None

    @classmethod
    @cache
    def of(
        cls, epsilon: float, *, delta: float, confidence: float, by: RuleAndLimit = _DEFAULT
    ) -> Power:
        """For a claim of ``epsilon``, positive and finite, judged at ``delta``."""

        def fewest(rates: Rates) -> int | None:
            return fewest_samples(
                lambda samples: exceeds(
                    by.foreseen(samples, rates, delta=delta, alpha=1.0 - confidence), epsilon
                ),
                _MOST_DRAWS,
            )

        pairs = (_randomized_response, _gaussian)
        return cls(*(fewest(pair(FACTOR * epsilon, delta)) for pair in pairs))

    @classmethod
    def against(cls, epsilon: float, shown: Bound | None, by: object = _DEFAULT) -> Power | None:
        """Of what was measured; None where nothing was, or the claim is 0 or infinite.

        By the default estimator, where the other one cannot tell, or rests on an assumption.
        """
        if shown is None or shown.confidence == 1.0 or not 0.0 < epsilon < math.inf:
            return None
        told = isinstance(by, RuleAndLimit) and not shown.assumptions
        member = by if told else _DEFAULT
        return cls.of(epsilon, delta=shown.delta, confidence=shown.confidence, by=member)

    def __str__(self) -> str:
        return self.told("draws of each world")

    def told(self, draws: str) -> str:
        """A sentence without its end; what is drawn is called ``draws``."""
        return (
            f"a system that spends twice the claim is refuted by about {_count(self.response)} "
            f"{draws} if it is randomized response, by {_count(self.gaussian)} if it is Gaussian "
            "noise"
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


def _count(draws: int | None) -> str:
    """The number to two digits, rounded up: counts vary."""
    if draws is None:
        return "more than 10^9"
    unit = 10 ** max(0, len(str(draws)) - 2)
    return f"{math.ceil(draws / unit) * unit:,}"
