"""Simulated miss rate and power of every estimator, at sizes that the contract has no time for.

The miss rate is the share of runs whose bound exceeds the truth: nominally at most 5%. It is
compatible with that if its 99.9% Clopper-Pearson interval reaches 5%.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.auditor.worlds.estimators.base import Estimator
from tests.contracts.worlds import WORLDS, Scores, World, coin, estimates, response

pytestmark = pytest.mark.calibration
RUNS = 1_000


def beside_noise(p: float) -> World:
    """A coin beside a number that says nothing, in one vector."""

    def draw(p: float, rng: np.random.Generator, n: int) -> Scores:
        return np.stack([coin(p)(rng, n), rng.normal(size=n)], axis=1)

    return World(
        lambda rng, n: draw(p, rng, n),
        lambda rng, n: draw(1 - p, rng, n),
        response(math.log(p / (1 - p))).truth,
    )


def losses() -> World:
    """Losses of a canary that a training does not heed: skewed, and alike in both worlds."""
    return World(
        lambda rng, n: rng.lognormal(size=n), lambda rng, n: rng.lognormal(size=n), lambda delta: 0
    )


WIDER = {
    **WORLDS,
    "response 0.1": response(0.1),
    "response 4": response(4.0),
    "response 1 beside noise": beside_noise(1 / (1 + math.exp(-1))),
    "a canary without effect": losses(),
}


@pytest.fixture(params=FAMILIES["estimators"].names())
def estimator(request: pytest.FixtureRequest) -> Estimator:
    made: Estimator = FAMILIES["estimators"].member(request.param)()
    return made


@pytest.mark.parametrize(
    ("n", "delta"), [(20, 0.0), (100, 0.0), (1_000, 0.0), (1_000, 0.3), (100_000, 0.0)]
)
@pytest.mark.parametrize("world", WIDER)
def test_miss_rate_over_many_runs(estimator: Estimator, world: str, delta: float, n: int) -> None:
    if math.isinf(WIDER[world].truth(delta)):
        delta = 0.01
    truth = WIDER[world].truth(delta)
    try:
        found = estimates(estimator, WIDER[world], n=n, delta=delta, confidences=(0.95,), runs=RUNS)
    except InputError as error:
        pytest.skip(f"it refuses such outputs: {error}")
    misses = int(np.count_nonzero(found > truth + 1e-12))
    high = stats.binomtest(misses, RUNS).proportion_ci().high
    print(
        f"\n{world}, delta {delta}, n={n}: over {truth:.4g} in {misses} ({misses / RUNS:.2%}, at "
        f"most {high:.2%}), median {np.median(found):.4g}"
    )
    assert stats.binomtest(misses, RUNS, 0.05, "greater").pvalue >= 0.001


@pytest.mark.parametrize("n", [1_000, 10_000, 100_000])
def test_power_against_a_doubled_epsilon(estimator: Estimator, n: int) -> None:
    """A claim of half the truth is refuted in at least 90% of runs from n = 1,000."""
    world, delta = response(1.0), 0.0
    truth = world.truth(delta)
    found = estimates(estimator, world, delta=delta, confidences=(0.95,), runs=200, n=n)[:, 0]
    refuted = np.mean(found > truth / 2)
    print(f"\nn={n}: median bound {np.median(found):.4f} of {truth:.4f}, refuted {refuted:.3f}")
    assert refuted >= 0.9
