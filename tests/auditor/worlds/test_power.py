"""How many draws refute a claim of half of what is spent."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedrec_auditor.accountants.losses.gaussian import gaussian_mu
from fedrec_auditor.accountants.statements.bound import Bound, Side
from fedrec_auditor.accountants.statements.claim import Claim
from fedrec_auditor.accountants.statements.scope import (
    Horizon,
    Scope,
    Unit,
    Vantage,
    any_pair,
)
from fedrec_auditor.accountants.verdict import Verdict
from fedrec_auditor.auditor.judging.accounting import with_untested
from fedrec_auditor.auditor.worlds.estimators.joint_binomial import JointBinomial
from fedrec_auditor.auditor.worlds.power import Power
from fedrec_auditor.auditor.worlds.sampler import Sampler
from fedrec_auditor.reports.rows import Finding

TRAINING = any_pair(Unit.USER, Vantage.SERVER, Horizon.TRAINING)


def _response(epsilon: float) -> Callable[..., Any]:
    lie = 1 / (1 + math.exp(epsilon))
    return lambda bit, rng, size: (rng.random(size) < lie) ^ bool(bit)


def _gaussian(epsilon: float) -> Callable[..., Any]:
    mu = gaussian_mu(epsilon, 1e-5)
    return lambda bit, rng, size: rng.normal(mu * bit, 1.0, size)


@pytest.mark.parametrize("claimed", [1.0, 2.197])
@pytest.mark.parametrize("law", [_response, _gaussian])
def test_so_many_draws_refute_half_of_what_is_spent(
    claimed: float, law: Callable[..., Any]
) -> None:
    """Twice as many refute it mostly, a fifth of them hardly ever."""
    power = Power.of(claimed, delta=0.0, confidence=0.95)
    needed = power.response if law is _response else power.gaussian
    assert needed is not None
    worlds = Sampler.of(law(2 * claimed)).worlds([0, 1])

    def share(samples: int) -> float:
        bounds = [
            JointBinomial().bound(
                worlds,
                delta=0.0,
                confidence=0.95,
                samples=samples,
                rng=np.random.default_rng(seed),
            )
            for seed in range(20)
        ]
        return float(np.mean([bound.epsilon > claimed for bound in bounds]))

    assert share(2 * needed) > 0.5
    assert share(max(10, needed // 5)) < 0.5


def test_more_draws_are_needed_of_small_and_of_large_claims() -> None:
    """A small one is within the noise of counts, of a large one wrong guesses are rare."""
    small, middle, large = (
        Power.of(epsilon, delta=0.0, confidence=0.95) for epsilon in (0.1, 1.0, 8.0)
    )
    assert small.response > middle.response < large.response
    assert small.gaussian > middle.gaussian < large.gaussian
    assert Power.of(30.0, delta=0.0, confidence=0.95) == Power(None, None)


def _finding(samples: int, scope: Scope = TRAINING) -> Finding:
    claim = Claim(epsilon=2.197, scope=scope, statement="ours", source="paper")
    shown = Bound(
        epsilon=1.16,
        side=Side.LOWER,
        scope=scope,
        source="a game",
        confidence=0.95,
        samples=samples,
        largest=5.77,
    )
    return Finding.of("ours", claim, scope, delta=0.0, measured=shown)


def test_a_training_claim_that_so_few_runs_could_not_refute_is_inconclusive() -> None:
    """A thousand of each world do not refute a claim that is far too small."""
    few, enough = _finding(2_000), _finding(20_000)
    assert few.verdict is enough.verdict is Verdict.UNSUBSTANTIATED
    (judged,) = with_untested([few], (), {})
    assert judged.verdict is Verdict.INCONCLUSIVE
    assert judged.reason.startswith(
        "2,000 draws of trainings are too few to tell: as often as not, a system"
    )
    assert judged.judged_again() == judged
    assert with_untested([enough], (), {}) == (enough,)
    both = with_untested([few, enough], (), {})
    assert [finding.verdict for finding in both] == 2 * [Verdict.UNSUBSTANTIATED]


def test_draws_of_a_round_do_not_count_as_trainings() -> None:
    """Default audits play the local game beside trainings, for the same claim."""
    few = _finding(2_000)
    assert few.measured is not None
    local = replace(few.measured, scope=replace(TRAINING, horizon=Horizon.ROUND), samples=40_000)
    of_a_round = Finding.of("ours", few.claim, TRAINING, delta=0.0, measured=local)
    judged = with_untested([few, of_a_round], (), {})
    assert [finding.verdict for finding in judged] == 2 * [Verdict.INCONCLUSIVE]
    assert with_untested([of_a_round], (), {}) == (of_a_round,)


def test_a_claim_of_a_round_stays_unsubstantiated() -> None:
    """Its loss may be that of randomized response, which few draws refute."""
    finding = _finding(2_000, replace(TRAINING, horizon=Horizon.ROUND))
    assert with_untested([finding], (), {}) == (finding,)
