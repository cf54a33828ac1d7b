"""The held-out Clopper-Pearson bound: its limits, its choice of event, its refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.testing.estimators import Draw, coin, estimate, worlds_of
from fedrec_auditor.auditor.worlds.estimators import clopper_pearson
from fedrec_auditor.auditor.worlds.estimators.clopper_pearson import ClopperPearson, ThresholdEvent
from fedrec_auditor.auditor.worlds.estimators.parts.binomial_limits import (
    clopper_pearson_lower,
    clopper_pearson_upper,
    event_epsilon,
)
from fedrec_auditor.auditor.worlds.sampler import Sampler


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
    found = estimate(ClopperPearson(), worlds_of(coin(p), coin(1 - p)), samples=200_000)
    assert 0.95 < found.epsilon <= 1.0


def test_two_worlds_are_found_among_several() -> None:
    several = Sampler.of(lambda p, rng, size: rng.random(size) < p).worlds([0.5, 0.4, 0.1, 0.5])
    found = estimate(ClopperPearson(), several, samples=20_000)
    assert 0.9 * math.log(5) < found.epsilon < math.log(5)
    assert (found.witness.input_a, found.witness.input_b) == ("0.5", "0.1")


def test_the_witness_has_the_limits_whose_ratio_is_the_bound() -> None:
    worlds = worlds_of(lambda rng, n: rng.random(n) + 0.5, lambda rng, n: rng.random(n))
    witness = (found := estimate(ClopperPearson(), worlds, samples=1_100)).witness
    ratio = witness.probability_a / witness.probability_b
    assert found.epsilon == pytest.approx(math.log(ratio))


@pytest.mark.parametrize(
    "draw", [lambda rng, n: np.ones((n, 2)), lambda rng, n: np.full(n, "a word")]
)
def test_outputs_that_are_no_numbers_are_refused(draw: Draw) -> None:
    with pytest.raises(InputError, match="one number an output"):
        estimate(ClopperPearson(), worlds_of(draw, draw), samples=10)


def test_thousands_of_thresholds_are_as_good_as_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """The event chosen among some of 80,000 thresholds bounds as much, by less than 0.02, as all.

    Judged by the true frequencies of two normal laws, 1 apart, among a million samples.
    """
    rng = np.random.default_rng(0)
    scores = rng.normal(1.0, 1.0, 40_000), rng.normal(0.0, 1.0, 40_000)

    def chosen() -> ThresholdEvent:
        return ClopperPearson().choose(scores, (0, 1), (10**6, 10**6), delta=1e-5, alpha=0.05)

    def worth(event: ThresholdEvent) -> float:
        side = stats.norm.sf if event.above else stats.norm.cdf
        inside = side(event.threshold, [1.0, 0.0]) * 1_000_000
        one, other = inside[list(event.worlds)]
        found = event_epsilon(one, 1_000_000, other, 1_000_000, delta=1e-5, alpha=0.05)
        return float(found)

    some = chosen()
    monkeypatch.setattr(clopper_pearson, "_MANY", 1 << 20)
    assert abs(worth(some) - worth(chosen())) < 0.02
    assert worth(some) > 2.0
