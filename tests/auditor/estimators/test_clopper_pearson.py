"""The held-out Clopper-Pearson bound: its limits, its choice of event, its refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, stats

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements.scope import Adjacency, Horizon, Scope, Unit, Vantage
from fedrec_auditor.auditor.estimators import clopper_pearson
from fedrec_auditor.auditor.estimators.clopper_pearson import (
    ClopperPearson,
    Event,
    choose,
    clopper_pearson_lower,
    clopper_pearson_upper,
    event_epsilon,
)

SCOPE = Scope(
    unit=Unit.REPORT,
    adjacency=Adjacency.ANY_PAIR,
    vantage=Vantage.SERVER,
    horizon=Horizon.REPORT,
)


def bound(a: np.ndarray, b: np.ndarray, delta: float = 0.0, seed: int = 0) -> float:
    return (
        ClopperPearson()
        .bound(a, b, delta=delta, confidence=0.95, scope=SCOPE, rng=np.random.default_rng(seed))
        .epsilon
    )


@given(st.integers(1, 500), st.data(), st.floats(0.001, 0.4))
def test_limits_agree_with_scipy(trials: int, data: st.DataObject, alpha: float) -> None:
    successes = data.draw(st.integers(0, trials))
    interval = stats.binomtest(successes, trials).proportion_ci(1 - 2 * alpha, method="exact")
    assert clopper_pearson_lower(successes, trials, alpha) == pytest.approx(interval.low, abs=1e-9)
    assert clopper_pearson_upper(successes, trials, alpha) == pytest.approx(interval.high, abs=1e-9)


@given(st.integers(0, 200), st.integers(0, 200), st.floats(0.0, 0.5))
def test_event_epsilon_is_the_plain_formula(hits: int, misses: int, delta: float) -> None:
    low = float(clopper_pearson_lower(hits, 200, 0.025))
    high = float(clopper_pearson_upper(misses, 200, 0.025))
    expected = max(0.0, math.log((low - delta) / high)) if low > delta else 0.0
    found = float(event_epsilon(hits, 200, misses, 200, delta=delta, alpha=0.05))
    assert found == pytest.approx(expected)


def test_both_directions_are_tried() -> None:
    """The asymmetric flip tells the worlds apart by the output 0 of the second world only."""
    rng = np.random.default_rng(0)
    always_one = np.ones(20_000)
    mostly_zero = (rng.random(20_000) < math.exp(-1)).astype(float)
    for a, b in ((always_one, mostly_zero), (mostly_zero, always_one)):
        assert bound(a, b) > 6


def test_bound_approaches_the_truth_from_below() -> None:
    """Randomized response at epsilon 1, 200,000 samples a world: within 5% of the truth."""
    rng = np.random.default_rng(1)
    p = math.e / (1 + math.e)
    a, b = (rng.random(200_000) < p).astype(float), (rng.random(200_000) < 1 - p).astype(float)
    assert 0.95 < bound(a, b) <= 1.0


def test_delta_is_subtracted() -> None:
    rng = np.random.default_rng(2)
    a, b = rng.normal(1, 1, 100_000), rng.normal(0, 1, 100_000)
    at_zero, at_delta = bound(a, b), bound(a, b, delta=0.01)

    def curve(epsilon: float) -> float:
        """delta(eps; mu=1) of the Gaussian mechanism, exactly."""
        return float(
            stats.norm.cdf(0.5 - epsilon) - math.exp(epsilon) * stats.norm.cdf(-0.5 - epsilon)
        )

    truth = optimize.brentq(lambda epsilon: curve(epsilon) - 0.01, 0, 10)
    assert 0.5 * truth < at_delta < truth
    assert at_delta < at_zero


def test_equal_worlds_show_nothing_large() -> None:
    rng = np.random.default_rng(3)
    assert bound(rng.random(5_000), rng.random(5_000)) < 0.2


def test_infinite_scores_are_ordered_not_refused() -> None:
    a, b = np.full(1_000, np.inf), np.full(1_000, -np.inf)
    assert bound(a, b) > 4


def test_result_says_what_it_rests_on() -> None:
    rng = np.random.default_rng(4)
    found = ClopperPearson().bound(
        rng.random(1_000) + 0.5,
        rng.random(1_200),
        delta=0.0,
        confidence=0.9,
        scope=SCOPE,
        rng=rng,
    )
    assert found.samples == 2_200
    assert found.confidence == 0.9
    assert found.witness is not None
    assert found.epsilon == pytest.approx(
        math.log(found.witness.probability_a / found.witness.probability_b)
    )


@pytest.mark.parametrize(
    ("scores", "match"),
    [(np.array([1.0, np.nan] * 5), "NaN"), (np.ones((4, 2)), "shape"), (np.ones(3), "n >= 4")],
)
def test_bad_scores_are_refused(scores: np.ndarray, match: str) -> None:
    with pytest.raises(InputError, match=match):
        bound(scores, np.ones(10))


def test_thousands_of_thresholds_are_as_good_as_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """The event chosen among some of 80,000 thresholds bounds as much, by less than 0.02, as all.

    Judged by the true frequencies of two normal laws, 1 apart, among a million samples.
    """
    rng = np.random.default_rng(0)
    a, b = rng.normal(1.0, 1.0, 40_000), rng.normal(0.0, 1.0, 40_000)

    def worth(event: Event) -> float:
        side = stats.norm.sf if event.above else stats.norm.cdf
        inside = side(event.threshold, [1.0, 0.0]) * 1_000_000
        one, other = inside[::-1] if event.swapped else inside
        found = event_epsilon(one, 1_000_000, other, 1_000_000, delta=1e-5, alpha=0.05)
        return float(found)

    some = choose(a, b, 1_000_000, 1_000_000, delta=1e-5, alpha=0.05)
    monkeypatch.setattr(clopper_pearson, "_MANY", 1 << 20)
    every = choose(a, b, 1_000_000, 1_000_000, delta=1e-5, alpha=0.05)
    assert abs(worth(some) - worth(every)) < 0.02
    assert worth(some) > 2.0
