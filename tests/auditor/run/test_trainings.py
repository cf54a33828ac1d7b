"""Tests of the interval over trainings and users, which covers the mean over both."""

from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from fedrec_auditor.auditor.plan.plan import Plan
from fedrec_auditor.auditor.run.runner import audit
from fedrec_auditor.auditor.run.tasks import Task, TaskResult
from fedrec_auditor.auditor.run.trainings import combine_trainings, find_lower_median, merge_results
from fedrec_auditor.reports.record.record import Record

RUNS = 2000
pytestmark = pytest.mark.usefixtures("few_users")


def simulate_coverage(trainings: int, between: float, rng: np.random.Generator) -> float:
    """Share of simulated intervals that cover the mean, if trainings deviate by ``between``.

    The error of the users is common to all trainings, which have the same users.
    """
    own = rng.normal(size=RUNS)
    values = own[:, None] + rng.normal(0, between, (RUNS, trainings))
    half = norm.ppf(0.975)
    made = [combine_trainings(v, v - half, v + half, 0.95) for v in values]
    return float(np.mean([each.ci_low <= 0.0 <= each.ci_high for each in made]))


@pytest.mark.parametrize("trainings", [3, 5, 10])
@pytest.mark.parametrize("between", [0.0, 0.3, 1.0, 30.0])
def test_the_interval_covers_the_mean(trainings, between):
    found = simulate_coverage(trainings, between, np.random.default_rng(trainings))
    assert found > 0.95 - 4 * np.sqrt(0.95 * 0.05 / RUNS)


def test_the_prediction_interval_covers_a_further_training():
    rng = np.random.default_rng(1)
    values = rng.normal(size=(RUNS, 4))
    made = [combine_trainings(v[:3], v[:3], v[:3], 0.95) for v in values]
    pairs = zip(made, values, strict=True)
    inside = [one.prediction_low <= four[3] <= one.prediction_high for one, four in pairs]
    assert abs(np.mean(inside) - 0.95) < 4 * np.sqrt(0.95 * 0.05 / RUNS)


def test_one_training_has_the_interval_of_its_users_and_no_prediction():
    found = combine_trainings([0.5], [0.4], [0.7], 0.95)
    assert (found.ci_low, found.ci_high) == pytest.approx((0.4, 0.7))
    assert np.isnan(found.prediction_high)


@pytest.mark.parametrize("trainings", [1, 2, 3, 4, 5])
def test_the_median_bound_of_trainings_fails_no_more_often(trainings):
    too_large = np.random.default_rng(2).random((100_000, trainings)) < 0.1
    median = [find_lower_median(row) for row in too_large[:20_000].astype(float).tolist()]
    assert np.mean(median) < 0.1 + 4 * np.sqrt(0.09 / 20_000)


def small_audit(**fields: Any) -> Record:
    attacks, settings = ("interaction-membership",), {"fcf": {"rounds": 1}}
    return audit("fcf", data="synthetic", settings=settings, attacks=attacks, jobs=1, **fields)


def test_an_audit_of_two_trainings_has_the_means_of_two_audits() -> None:
    both = small_audit(trainings=2)
    single = [small_audit(seed=seed, trainings=1) for seed in (0, 1)]
    assert both.findings == single[0].findings
    for kind in ("attacks", "utility"):
        for row, *parts in zip(*(getattr(record, kind) for record in (both, *single)), strict=True):
            names = ("value", "ci_low", "ci_high")
            values, lows, highs = ([getattr(part, name) for part in parts] for name in names)
            over = combine_trainings(values, lows, highs, 0.95)
            assert row.trainings == 2
            assert row.value == pytest.approx(over.mean)
            assert row.ci_low == pytest.approx(max(over.ci_low, 0.0))
            assert row.ci_high == pytest.approx(min(over.ci_high, 1.0))
    row = both.attacks[0]
    guesses = [record.attacks[0].baseline for record in single]
    assert row.baseline == pytest.approx(np.mean(guesses))
    assert row.gain is not None
    assert row.gain.value == pytest.approx(row.value - row.baseline)
    (popular,) = {row.baseline.value for row in both.utility[:1] if row.baseline}
    beside = [record.utility[0].baseline for record in single]
    assert popular == pytest.approx(np.mean([each.value for each in beside if each]))


def test_a_full_audit_trains_three_times_and_a_quick_one_once() -> None:
    assert [Plan(quick=quick).resolve().trainings for quick in (False, True)] == [3, 1]
    assert Plan(quick=True, trainings=5).resolve().trainings == 5


def test_a_row_missing_in_a_training_has_a_note() -> None:
    task = Task("fcf", "interaction-membership")
    row = small_audit(trainings=1).attacks[0]
    results = [TaskResult(attacks=(row,)), TaskResult(), TaskResult(attacks=(row,))]
    (combined,) = merge_results([{task: result} for result in results])[task].attacks
    assert combined.trainings == 2
    assert "This audit averages 2 of 3 trainings." in combined.note
