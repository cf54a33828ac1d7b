"""The road to a measured bound: measured twice before anybody is accused, and its power."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from scipy import special

from fedrec_auditor.accountants.losses.divergences import gaussian_mu
from fedrec_auditor.accountants.statements import Bound, Claim, Horizon
from fedrec_auditor.accountants.verdict import ALARM_CONFIDENCE, exceeds, refutes
from fedrec_auditor.auditor.worlds.estimators.base import (
    Estimator,
    Rates,
    fewest_samples,
)
from fedrec_auditor.auditor.worlds.estimators.lower_bound_estimators import JointBinomial
from fedrec_auditor.auditor.worlds.worlds import Worlds


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What was measured of worlds: lower bounds on epsilon.

    ``bound`` holds at the confidence asked for; if it was ``repeated``, it is the smaller one of
    two. ``alarm`` holds at the confidence at which a measurement contradicts a proof, and comes
    from the first draws.
    """

    bound: Bound
    alarm: Bound
    repeated: bool


def measure(
    worlds: Worlds,
    claims: Sequence[Claim],
    estimator: Estimator,
    *,
    delta: float,
    confidence: float,
    samples: int,
    rng: np.random.Generator,
) -> Measured:
    """Bound epsilon from below by ``samples`` draws of each world, twice if a claim is refuted.

    At 95%, one bound in twenty of a tight and honest system is above the truth. So where the first
    refutes one of ``claims``, worlds are drawn from once more, and the smaller of the two bounds is
    given: it holds at ``confidence`` as well, and accuses an honest system with probability
    (1 - confidence)^2 at most.

    >>> from fedrec_auditor.accountants.statements import Horizon, Unit, Vantage, any_pair
    >>> scope = any_pair(Unit.REPORT, Vantage.SERVER, Horizon.REPORT)
    >>> from fedrec_auditor.auditor.worlds.estimators.lower_bound_estimators import JointBinomial
    >>> worlds = Worlds(
    ...     names=("a fair coin", "a biased coin"),
    ...     scope=scope,
    ...     draw=lambda world, size, rng: rng.random(size) < (0.5, 0.9)[world],
    ... )
    >>> claim = Claim(epsilon=0.5, scope=scope, statement="A toss is 0.5-LDP.", source="Theorem 1")
    >>> found = measure(
    ...     worlds,
    ...     (claim,),
    ...     JointBinomial(),
    ...     delta=0.0,
    ...     confidence=0.95,
    ...     samples=1000,
    ...     rng=np.random.default_rng(0),
    ... )
    >>> refutes(found.bound, claim), found.repeated, found.bound.samples
    (True, True, 4000)
    """

    first, again = rng.spawn(2)
    bound, alarm = estimator.bounds(
        worlds, delta=delta, confidences=(confidence, ALARM_CONFIDENCE), samples=samples, rng=first
    )
    if not any(refutes(bound, claim) for claim in claims):
        return Measured(bound=bound, alarm=alarm, repeated=False)
    second = estimator.bound(worlds, delta=delta, confidence=confidence, samples=samples, rng=again)
    smaller = replace(
        min(bound, second, key=lambda each: each.epsilon),
        samples=(bound.samples or 0) + (second.samples or 0),
        source=f"{bound.source}; the smaller of two measurements",
    )
    return Measured(bound=smaller, alarm=alarm, repeated=True)


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
        cls, epsilon: float, *, delta: float, confidence: float, by: Estimator = _DEFAULT
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
    def against(
        cls, epsilon: float, shown: Bound | None, by: Estimator | None = None
    ) -> Power | None:
        """Of what was measured; None where nothing was, or the claim is 0 or infinite.

        By the default estimator, where no other is given, or the bound rests on an assumption.
        """
        if shown is None or shown.confidence == 1.0 or not 0.0 < epsilon < math.inf:
            return None
        member = _DEFAULT if by is None or shown.assumptions else by
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
