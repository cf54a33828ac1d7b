"""The held-out Clopper-Pearson bound: its limits, its choice of event, its refusals."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements.scope import Horizon, Unit, Vantage, any_pair
from fedrec_auditor.auditor.worlds.estimators import clopper_pearson
from fedrec_auditor.auditor.worlds.estimators.clopper_pearson import (
    ClopperPearson,
    ThresholdEvent,
    choose,
)
from fedrec_auditor.auditor.worlds.estimators.parts.binomial_limits import (
    clopper_pearson_lower,
    clopper_pearson_upper,
    event_epsilon,
)
from fedrec_auditor.auditor.worlds.worlds import Worlds

SCOPE = any_pair(Unit.REPORT, Vantage.SERVER, Horizon.REPORT)


Law = Callable[[np.random.Generator, int], Any]


def worlds(a: Law, b: Law) -> Worlds:
    return Worlds(
        names=("world a", "world b"),
        scope=SCOPE,
        draw=lambda world, size, rng: (a, b)[world](rng, size),
    )


def bound(a: Law, b: Law, samples: int, delta: float = 0.0, seed: int = 0) -> float:
    return (
        ClopperPearson()
        .bound(
            worlds(a, b),
            delta=delta,
            confidence=0.95,
            samples=samples,
            rng=np.random.default_rng(seed),
        )
        .epsilon
    )


def coin(p: float) -> Law:
    return lambda rng, n: (rng.random(n) < p).astype(float)


def normal(mean: float) -> Law:
    return lambda rng, n: rng.normal(mean, 1, n)


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


def test_bound_approaches_the_truth_from_below() -> None:
    """Randomized response at epsilon 1, 200,000 samples a world: within 5% of the truth."""
    p = math.e / (1 + math.e)
    assert 0.95 < bound(coin(p), coin(1 - p), 200_000) <= 1.0


def test_two_worlds_are_found_among_several() -> None:
    rates = (0.5, 0.4, 0.5, 0.1, 0.5)
    several = Worlds(
        names=tuple(map(str, rates)),
        scope=SCOPE,
        draw=lambda world, size, rng: rng.random(size) < rates[world],
    )
    found = ClopperPearson().bound(
        several, delta=0.0, confidence=0.95, samples=20_000, rng=np.random.default_rng(0)
    )
    assert 0.9 * math.log(5) < found.epsilon < math.log(5)
    assert found.witness is not None
    assert (found.witness.input_a, found.witness.input_b) == ("0.5", "0.1")


def test_result_says_what_it_rests_on() -> None:
    found = ClopperPearson().bound(
        worlds(lambda rng, n: rng.random(n) + 0.5, lambda rng, n: rng.random(n)),
        delta=0.0,
        confidence=0.9,
        samples=1_100,
        rng=np.random.default_rng(4),
    )
    assert found.samples == 2_200
    assert found.confidence == 0.9
    assert found.witness is not None
    assert found.epsilon == pytest.approx(
        math.log(found.witness.probability_a / found.witness.probability_b)
    )


@pytest.mark.parametrize(
    ("law", "samples", "match"),
    [
        (lambda rng, n: np.full(n, np.nan), 10, "NaN"),
        (lambda rng, n: np.ones((n, 2)), 10, "one number an output"),
        (lambda rng, n: np.full(n, "a word"), 10, "one number an output"),
        (coin(0.5), 3, "samples of at least"),
    ],
)
def test_bad_scores_are_refused(law: Law, samples: int, match: str) -> None:
    with pytest.raises(InputError, match=match):
        bound(law, law, samples)


def test_thousands_of_thresholds_are_as_good_as_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """The event chosen among some of 80,000 thresholds bounds as much, by less than 0.02, as all.

    Judged by the true frequencies of two normal laws, 1 apart, among a million samples.
    """
    rng = np.random.default_rng(0)
    a, b = rng.normal(1.0, 1.0, 40_000), rng.normal(0.0, 1.0, 40_000)

    def worth(event: ThresholdEvent) -> float:
        side = stats.norm.sf if event.above else stats.norm.cdf
        inside = side(event.threshold, [1.0, 0.0]) * 1_000_000
        one, other = inside[list(event.worlds)]
        found = event_epsilon(one, 1_000_000, other, 1_000_000, delta=1e-5, alpha=0.05)
        return float(found)

    some = choose((a, b), (0, 1), (1_000_000, 1_000_000), delta=1e-5, alpha=0.05)
    monkeypatch.setattr(clopper_pearson, "_MANY", 1 << 20)
    every = choose((a, b), (0, 1), (1_000_000, 1_000_000), delta=1e-5, alpha=0.05)
    assert abs(worth(some) - worth(every)) < 0.02
    assert worth(some) > 2.0
