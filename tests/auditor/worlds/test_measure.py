"""Tests of repeated measurement, and of the power of a number of draws."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedrec_auditor.accountants.losses.divergences import find_gaussian_mu
from fedrec_auditor.accountants.statements import (
    Bound,
    Claim,
    Horizon,
    Scope,
    Side,
    Unit,
    Vantage,
    make_local_scope,
)
from fedrec_auditor.accountants.verdict import ALARM_CONFIDENCE, Verdict
from fedrec_auditor.auditor.judging.accounting import mark_untested
from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.auditor.worlds.estimators.base import Estimator
from fedrec_auditor.auditor.worlds.measure import MeasuredBounds, RefutationDraws, measure_bounds
from fedrec_auditor.auditor.worlds.one_run import OneRun
from fedrec_auditor.auditor.worlds.sampler import REPORT_SCOPE
from fedrec_auditor.auditor.worlds.scores import OneRunScores
from fedrec_auditor.auditor.worlds.worlds import Worlds
from fedrec_auditor.reports.record.rows import Finding
from tests.contracts.worlds import World, coin, estimate, gaussian, response, worlds_of
from tests.points import later


def make_response(epsilon: float) -> Worlds:
    """Randomized response at ``epsilon``, with strings as outputs."""
    leak = response(epsilon)
    return replace(worlds_of(leak.a, leak.b), statistic_name="the answer")


def measure(
    worlds: Worlds,
    claimed: float,
    estimator: Estimator,
    *,
    samples: int = 4_000,
    confidence: float = 0.95,
    seed: Any = 0,
    scope: Scope = REPORT_SCOPE,
) -> MeasuredBounds:
    claim = Claim(epsilon=claimed, scope=scope, statement="a claim", source="a test")
    rng = np.random.default_rng(seed)
    return measure_bounds(
        worlds, (claim,), estimator, delta=0.0, confidence=confidence, samples=samples, rng=rng
    )


@pytest.fixture(params=FAMILIES["estimators"].list_names())
def estimator(request: pytest.FixtureRequest) -> Estimator:
    made: Estimator = FAMILIES["estimators"].load_class(request.param)()
    return made


def test_a_leak_is_found_and_measured_again(estimator: Estimator) -> None:
    found = measure(make_response(2.0), 1.0, estimator)
    assert 1.5 < found.bound.epsilon < 2.0
    assert found.is_measured_twice
    assert found.bound.confidence == 0.95
    assert found.high_confidence_bound.confidence == ALARM_CONFIDENCE
    assert found.high_confidence_bound.epsilon < 2.0
    assert found.bound.samples == 2 * 2 * 4_000
    assert "of two measured bounds, the smaller is given" in found.bound.source
    witness = found.bound.witness
    assert {witness.input_a, witness.input_b} == {"world a", "world b"}
    assert "the answer" in witness.output


def test_bounds_below_the_claim_are_measured_once(estimator: Estimator) -> None:
    found = measure(make_response(1.0), 1.2, estimator)
    assert not found.is_measured_twice
    assert found.bound.samples == 2 * 4_000


def test_claims_of_other_scopes_are_not_measured_again(estimator: Estimator) -> None:
    narrow = make_local_scope(Unit.COORDINATE, Vantage.SERVER, Horizon.ROUND)
    found = measure(make_response(2.0), 0.1, estimator, samples=2_000, scope=narrow)
    assert not found.is_measured_twice


def test_the_smaller_of_two_bounds_is_returned(estimator: Estimator) -> None:
    for seed in range(5):
        found = measure(make_response(3.0), 1.0, estimator, seed=seed)
        both = [
            estimate(estimator, make_response(3.0), samples=4_000, seed=stream).epsilon
            for stream in np.random.default_rng(seed).spawn(2)
        ]
        assert found.bound.epsilon == min(both)


def test_the_event_may_be_rare_in_either_world(estimator: Estimator) -> None:
    """Only world 1 has outputs 0: the bound is large in one direction, in both orders of worlds."""

    for rare, draws in enumerate([(coin(0.4), coin(1.0)), (coin(1.0), coin(0.4))]):
        found = measure(worlds_of(*draws), 1.0, estimator)
        assert found.bound.epsilon > 4.0
        witness = found.bound.witness
        assert witness.input_a == f"world {'ab'[rare]}"


TRAINING = make_local_scope(Unit.USER, Vantage.SERVER, Horizon.TRAINING)


def _response(epsilon: float) -> World:
    return response(epsilon)


def _gaussian(epsilon: float) -> World:
    return gaussian(find_gaussian_mu(epsilon, 1e-5))


def _members() -> Iterator[Any]:
    """All estimators; only `make calibrate` runs those that are not the default."""
    for name in FAMILIES["estimators"].list_names():
        member = FAMILIES["estimators"].load_class(name)()
        marks = () if name == "joint-binomial" else pytest.mark.calibration
        yield pytest.param(member, marks=marks, id=name)
    yield pytest.param(OneRun(), marks=pytest.mark.calibration, id="one-run")


def _bound(estimator: Any, world: World, samples: int, rng: np.random.Generator) -> Bound:
    """Bound by ``samples`` draws per world, or canaries in one run."""
    if isinstance(estimator, OneRun):
        included = rng.random(samples) < 0.5
        scores = np.where(included, world.a(rng, samples), world.b(rng, samples))
        return OneRunScores.build(scores, included).bound(seed=int(rng.integers(2**32)))
    return estimate(estimator, worlds_of(world.a, world.b), samples=samples, seed=rng)


@pytest.mark.parametrize("claimed", [1.0, later(2.197)])
@pytest.mark.parametrize("world", [_response, _gaussian])
@pytest.mark.parametrize("estimator", [*_members()])
def test_the_stated_draws_refute_half_of_the_true_epsilon(
    estimator: Any, world: Callable[[float], World], claimed: float
) -> None:
    """Twice the number of draws refutes mostly, a fifth of it rarely."""
    power = RefutationDraws.count(claimed, delta=0.0, confidence=0.95, estimator=estimator)
    needed = power.n_draws_randomized_response if world is _response else power.n_draws_gaussian
    assert needed is not None

    fewest, runs = (20, 100) if isinstance(estimator, OneRun) else (10, 20)

    def share(samples: int) -> float:
        rngs = np.random.default_rng(samples).spawn(runs)
        bounds = [_bound(estimator, world(2 * claimed), samples, rng) for rng in rngs]
        return float(np.mean([bound.epsilon > claimed for bound in bounds]))

    assert share(2 * needed) > 0.5
    assert share(max(fewest, needed // 5)) < 0.5


def test_small_and_large_claims_need_more_draws() -> None:
    """A small claim is within the error of counts; for a large one wrong guesses are rare."""
    small, middle, large = (
        RefutationDraws.count(epsilon, delta=0.0, confidence=0.95) for epsilon in (0.1, 1.0, 8.0)
    )
    draws = [each.n_draws_randomized_response for each in (small, middle, large)]
    assert draws[0] > draws[1] < draws[2]
    assert small.n_draws_gaussian > middle.n_draws_gaussian < large.n_draws_gaussian
    assert RefutationDraws.count(30.0, delta=0.0, confidence=0.95) == RefutationDraws(None, None)


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
    return Finding.from_bounds("ours", claim, scope, delta=0.0, measured=shown)


def test_a_training_claim_with_too_few_runs_is_inconclusive() -> None:
    """A thousand runs per world do not refute a claim that is far too small."""
    few, enough = _finding(2_000), _finding(20_000)
    assert few.verdict is enough.verdict is Verdict.UNSUBSTANTIATED
    (judged,) = mark_untested([few], (), {})
    assert judged.verdict is Verdict.INCONCLUSIVE
    assert judged.reason.startswith(
        "2,000 draws of trainings are too few: in about half of all cases, a system"
    )
    assert judged.judge_again() == judged
    assert mark_untested([enough], (), {}) == (enough,)
    both = mark_untested([few, enough], (), {})
    assert [finding.verdict for finding in both] == 2 * [Verdict.UNSUBSTANTIATED]


def test_draws_of_a_round_do_not_count_as_trainings() -> None:
    """Default audits run the local game besides trainings, for the same claim."""
    few = _finding(2_000)
    local = replace(few.measured, scope=replace(TRAINING, horizon=Horizon.ROUND), samples=40_000)
    of_a_round = Finding.from_bounds("ours", few.claim, TRAINING, delta=0.0, measured=local)
    judged = mark_untested([few, of_a_round], (), {})
    assert [finding.verdict for finding in judged] == 2 * [Verdict.INCONCLUSIVE]
    assert mark_untested([of_a_round], (), {}) == (of_a_round,)


def test_a_claim_of_a_round_stays_unsubstantiated() -> None:
    """The loss of a round may be that of randomized response, which few draws refute."""
    finding = _finding(2_000, replace(TRAINING, horizon=Horizon.ROUND))
    assert mark_untested([finding], (), {}) == (finding,)
