"""The road to a measured bound: bounds that hold, and accusations measured twice."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from fedrec_auditor.accountants.statements.claim import Claim
from fedrec_auditor.accountants.statements.scope import Horizon, Unit, Vantage, any_pair
from fedrec_auditor.accountants.verdict import ALARM_CONFIDENCE
from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.auditor.worlds.estimators.all_thresholds import AllThresholds
from fedrec_auditor.auditor.worlds.estimators.base import Assumption, Estimator
from fedrec_auditor.auditor.worlds.measure import Measured, measure
from fedrec_auditor.auditor.worlds.worlds import Worlds

SCOPE = any_pair(Unit.INTERACTION, Vantage.SERVER, Horizon.TRAINING)
RUNS = 200


def response(epsilon: float) -> Worlds:
    """Randomized response of this epsilon: world 0 says 1 with e^eps/(1 + e^eps), world 1 else."""

    def draw(world: int, size: int, rng: np.random.Generator) -> NDArray[np.float64]:
        rate = 1 / (1 + math.exp(-epsilon if world == 0 else epsilon))
        return (rng.random(size) < rate).astype(np.float64)

    return Worlds(names=("a one", "a zero"), scope=SCOPE, draw=draw, statistic="the answer")


def measured(
    worlds: Worlds,
    claimed: float,
    estimator: Estimator,
    *,
    samples: int = 4_000,
    confidence: float = 0.95,
    seed: Any = 0,
) -> Measured:
    claim = Claim(epsilon=claimed, scope=SCOPE, statement="a claim", source="a test")
    return measure(
        worlds,
        (claim,),
        estimator,
        delta=0.0,
        confidence=confidence,
        samples=samples,
        rng=np.random.default_rng(seed),
    )


UNCONDITIONAL = [
    name
    for name in FAMILIES["estimators"].names()
    if FAMILIES["estimators"].member(name)().conditional is Assumption.NONE
]


@pytest.fixture(params=UNCONDITIONAL)
def estimator(request: pytest.FixtureRequest) -> Estimator:
    made: Estimator = FAMILIES["estimators"].member(request.param)()
    return made


def test_a_leak_is_found_and_measured_again(estimator: Estimator) -> None:
    found = measured(response(2.0), 1.0, estimator)
    assert 1.5 < found.bound.epsilon < 2.0
    assert found.repeated
    assert found.bound.confidence == 0.95
    assert found.alarm.confidence == ALARM_CONFIDENCE
    assert found.alarm.epsilon < 2.0
    assert found.bound.samples == 2 * 2 * 4_000
    assert "the smaller of two measurements" in found.bound.source
    witness = found.bound.witness
    assert witness is not None
    assert {witness.input_a, witness.input_b} == {"a one", "a zero"}
    assert "the answer" in witness.output


def test_what_stays_below_its_claim_is_measured_once(estimator: Estimator) -> None:
    found = measured(response(1.0), 1.2, estimator)
    assert not found.repeated
    assert found.bound.samples == 2 * 4_000


def test_a_claim_that_speaks_of_less_is_no_reason_to_measure_again(estimator: Estimator) -> None:
    narrow = any_pair(Unit.COORDINATE, Vantage.SERVER, Horizon.ROUND)
    claim = Claim(epsilon=0.1, scope=narrow, statement="a claim", source="a test")
    found = measure(
        response(2.0),
        (claim,),
        estimator,
        delta=0.0,
        confidence=0.95,
        samples=2_000,
        rng=np.random.default_rng(0),
    )
    assert not found.repeated


def test_a_repeated_accusation_is_rarer_than_the_confidence_says(estimator: Estimator) -> None:
    """A tight, honest mechanism exceeds its claim twice in (1 - 0.6)^2 of all games at most.

    Refused if so many were less likely than 1e-6 at that rate.
    """
    found = [
        measured(response(1.0), 1.0, estimator, samples=400, confidence=0.6, seed=[1, seed])
        for seed in range(RUNS)
    ]
    accused = sum(each.bound.epsilon > 1.0 for each in found)
    assert stats.binom.sf(accused - 1, RUNS, 0.4**2) > 1e-6
    if not isinstance(estimator, AllThresholds):  # a union bound over ranks errs too rarely
        assert any(each.repeated for each in found), "nothing was measured twice"


def test_the_smaller_bound_of_two_is_told(estimator: Estimator) -> None:
    for seed in range(20):
        found = measured(response(3.0), 1.0, estimator, seed=seed)
        both = [
            estimator.bound(
                response(3.0), delta=0.0, confidence=0.95, samples=4_000, rng=stream
            ).epsilon
            for stream in np.random.default_rng(seed).spawn(2)
        ]
        assert found.bound.epsilon == min(both)


def test_the_world_in_which_the_event_is_rare_may_be_either(estimator: Estimator) -> None:
    """A 0 of world 1 only: the bound is large in one direction, and found in both orders."""

    def draw(world: int, size: int, rng: np.random.Generator) -> NDArray[np.float64]:
        return np.where(world == 0, 1.0, (rng.random(size) < 0.4).astype(np.float64))

    base = response(1.0)
    for swapped in (False, True):
        worlds = replace(base, draw=lambda w, size, rng, s=swapped: draw(w ^ int(s), size, rng))
        found = measured(worlds, 1.0, estimator)
        assert found.bound.epsilon > 4.0
        witness = found.bound.witness
        assert witness is not None
        assert witness.input_a == base.names[0 if swapped else 1]
