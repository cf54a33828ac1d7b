"""The bound that is looked at while draws come in."""

from __future__ import annotations

import pytest
from scipy import stats

from fedrec_auditor.auditor.worlds.estimators.anytime import Anytime, _share
from tests.contracts.worlds import estimate, response, worlds_of

SAMPLES = 200_000


def test_shares_of_the_looks_add_up_to_one() -> None:
    assert sum(map(_share, range(1, 10_000))) == pytest.approx(1, abs=1e-4)


def test_it_stops_once_a_claim_is_refuted() -> None:
    leak = response(1.0)
    worlds = worlds_of(leak.a, leak.b)
    whole = estimate(Anytime(), worlds, samples=SAMPLES)
    stopped = estimate(Anytime(above=0.5), worlds, samples=SAMPLES)
    assert whole.samples == 2 * SAMPLES
    assert stopped.samples < SAMPLES / 3
    assert 0.5 < stopped.epsilon <= whole.epsilon


def test_it_stops_once_it_is_precise_enough() -> None:
    leak = response(1.0)
    found = estimate(Anytime(precision=0.1), worlds_of(leak.a, leak.b), samples=SAMPLES)
    assert found.samples < SAMPLES
    assert found.epsilon > 0.85


def test_stopping_at_a_lucky_look_is_paid_for() -> None:
    leak, misses, runs = response(1.0), 0, 100
    worlds, estimator = worlds_of(leak.a, leak.b), Anytime(above=1.0)
    for run in range(runs):
        found = estimate(estimator, worlds, confidence=0.8, samples=5_000, seed=run)
        misses += found.epsilon > 1.0
    assert stats.binomtest(misses, runs, 0.2, "greater").pvalue > 1e-6
