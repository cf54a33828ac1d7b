"""The one road to a measured bound: measured, and measured again before anybody is accused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedrec_auditor.accountants.statements.bound import Bound
from fedrec_auditor.accountants.statements.claim import Claim
from fedrec_auditor.accountants.verdict import ALARM_CONFIDENCE, refutes
from fedrec_auditor.auditor.worlds.estimators.base import Estimator
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

    >>> from fedrec_auditor.accountants.statements.scope import Horizon, Unit, Vantage, any_pair
    >>> scope = any_pair(Unit.REPORT, Vantage.SERVER, Horizon.REPORT)
    >>> from fedrec_auditor.auditor.worlds.estimators.joint_binomial import JointBinomial
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
        worlds,
        delta=delta,
        confidences=(confidence, ALARM_CONFIDENCE),
        samples=samples,
        rng=first,
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
