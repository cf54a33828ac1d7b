"""The road to a measured bound: bounds that hold, and accusations measured twice."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from fedrec_auditor.accountants.statements.claim import Claim
from fedrec_auditor.accountants.statements.scope import Horizon, Scope, Unit, Vantage, any_pair
from fedrec_auditor.accountants.verdict import ALARM_CONFIDENCE
from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.auditor.worlds.estimators.all_thresholds import AllThresholds
from fedrec_auditor.auditor.worlds.estimators.base import Estimator
from fedrec_auditor.auditor.worlds.measure import Measured, measure
from fedrec_auditor.auditor.worlds.sampler import ONE_REPORT
from fedrec_auditor.auditor.worlds.worlds import Worlds
from tests.contracts.worlds import coin, estimate, response, worlds_of

RUNS = 100


def leaking(epsilon: float) -> Worlds:
    """Randomized response of this epsilon, whose answers have a name."""
    leak = response(epsilon)
    return replace(worlds_of(leak.a, leak.b), statistic="the answer")


def measured(
    worlds: Worlds,
    claimed: float,
    estimator: Estimator,
    *,
    samples: int = 4_000,
    confidence: float = 0.95,
    seed: Any = 0,
    scope: Scope = ONE_REPORT,
) -> Measured:
    claim = Claim(epsilon=claimed, scope=scope, statement="a claim", source="a test")
    rng = np.random.default_rng(seed)
    return measure(
        worlds, (claim,), estimator, delta=0.0, confidence=confidence, samples=samples, rng=rng
    )


@pytest.fixture(params=FAMILIES["estimators"].names())
def estimator(request: pytest.FixtureRequest) -> Estimator:
    made: Estimator = FAMILIES["estimators"].member(request.param)()
    return made


def test_a_leak_is_found_and_measured_again(estimator: Estimator) -> None:
    found = measured(leaking(2.0), 1.0, estimator)
    assert 1.5 < found.bound.epsilon < 2.0
    assert found.repeated
    assert found.bound.confidence == 0.95
    assert found.alarm.confidence == ALARM_CONFIDENCE
    assert found.alarm.epsilon < 2.0
    assert found.bound.samples == 2 * 2 * 4_000
    assert "the smaller of two measurements" in found.bound.source
    witness = found.bound.witness
    assert {witness.input_a, witness.input_b} == {"world a", "world b"}
    assert "the answer" in witness.output


def test_what_stays_below_its_claim_is_measured_once(estimator: Estimator) -> None:
    found = measured(leaking(1.0), 1.2, estimator)
    assert not found.repeated
    assert found.bound.samples == 2 * 4_000


def test_a_claim_that_speaks_of_less_is_no_reason_to_measure_again(estimator: Estimator) -> None:
    narrow = any_pair(Unit.COORDINATE, Vantage.SERVER, Horizon.ROUND)
    found = measured(leaking(2.0), 0.1, estimator, samples=2_000, scope=narrow)
    assert not found.repeated


@pytest.mark.calibration
def test_a_repeated_accusation_is_rarer_than_the_confidence_says(estimator: Estimator) -> None:
    """A tight, honest mechanism exceeds its claim twice in (1 - 0.6)^2 of all games at most.

    Refused if so many were less likely than 1e-6 at that rate.
    """
    found = [
        measured(leaking(1.0), 1.0, estimator, samples=400, confidence=0.6, seed=[1, seed])
        for seed in range(RUNS)
    ]
    accused = sum(each.bound.epsilon > 1.0 for each in found)
    assert stats.binom.sf(accused - 1, RUNS, 0.4**2) > 1e-6
    if not isinstance(estimator, AllThresholds):  # a union bound over ranks errs too rarely
        assert any(each.repeated for each in found), "nothing was measured twice"


def test_the_smaller_bound_of_two_is_told(estimator: Estimator) -> None:
    for seed in range(5):
        found = measured(leaking(3.0), 1.0, estimator, seed=seed)
        both = [
            estimate(estimator, leaking(3.0), samples=4_000, seed=stream).epsilon
            for stream in np.random.default_rng(seed).spawn(2)
        ]
        assert found.bound.epsilon == min(both)


def test_the_world_in_which_the_event_is_rare_may_be_either(estimator: Estimator) -> None:
    """A 0 of world 1 only: the bound is large in one direction, and found in both orders."""

    for rare, draws in enumerate([(coin(0.4), coin(1.0)), (coin(1.0), coin(0.4))]):
        found = measured(worlds_of(*draws), 1.0, estimator)
        assert found.bound.epsilon > 4.0
        witness = found.bound.witness
        assert witness.input_a == f"world {'ab'[rare]}"
