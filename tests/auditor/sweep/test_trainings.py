"""The interval over trainings and users covers the mean of all trainings on all users."""

import numpy as np
import pytest
from scipy.stats import norm

from fedrec_auditor.auditor.sweep.trainings import over_trainings, shown

RUNS = 4000


def covered(trainings: int, between: float, of_users: float, rng: np.random.Generator) -> float:
    """The share of simulated sweeps whose interval holds the mean, of this deviation between.

    The users' part is common to all trainings, as the people are, and its intervals are at the
    confidence ``of_users``.
    """
    own = rng.normal(size=RUNS)
    values = own[:, None] + rng.normal(0, between, (RUNS, trainings))
    half = norm.ppf(0.5 + 0.5 * of_users)
    made = [over_trainings(v, v - half, v + half, 0.95, of_users) for v in values]
    return float(np.mean([each.ci_low <= 0.0 <= each.ci_high for each in made]))


@pytest.mark.parametrize("trainings", [3, 5, 10])
@pytest.mark.parametrize(
    ("between", "of_users"), [(0.0, 0.95), (0.3, 0.95), (1.0, 0.8), (1.0, 0.95), (30.0, 0.8)]
)
def test_it_covers(trainings, between, of_users):
    found = covered(trainings, between, of_users, np.random.default_rng(trainings))
    assert found > 0.95 - 4 * np.sqrt(0.95 * 0.05 / RUNS)


def test_a_further_training_lies_where_it_is_expected():
    rng = np.random.default_rng(1)
    values = rng.normal(size=(RUNS, 4))
    made = [over_trainings(v[:3], v[:3], v[:3], 0.95) for v in values]
    inside = [m.next_low <= v[3] <= m.next_high for m, v in zip(made, values, strict=True)]
    assert abs(np.mean(inside) - 0.95) < 4 * np.sqrt(0.95 * 0.05 / RUNS)


def test_of_one_training_it_is_that_of_its_users_and_nothing_is_said_of_another():
    found = over_trainings([0.5], [0.4], [0.7], 0.95)
    assert (found.ci_low, found.ci_high) == pytest.approx((0.4, 0.7))
    assert np.isnan(found.next_high)


@pytest.mark.parametrize("trainings", [1, 2, 3, 4, 5])
def test_a_bound_of_several_trainings_misses_no_more_often_than_one(trainings):
    too_large = np.random.default_rng(2).random((100_000, trainings)) < 0.1
    median = [shown(row) for row in too_large[:20_000].astype(float).tolist()]
    assert np.mean(median) < 0.1 + 4 * np.sqrt(0.09 / 20_000)
