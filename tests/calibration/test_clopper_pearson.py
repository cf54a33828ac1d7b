"""Simulated miss rate and power of the held-out Clopper-Pearson bound.

The miss rate is the share of runs whose bound exceeds the truth: nominally at most 5%. A run's
verdict is compatible with that if the observed rate's 99.9% Clopper-Pearson interval reaches 5%.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from accountants.scope import Adjacency, Horizon, Scope, Unit, Vantage
from auditor.estimators.clopper_pearson import ClopperPearson, clopper_pearson_lower

SCOPE = Scope(
    unit=Unit.REPORT,
    adjacency=Adjacency.ANY_PAIR,
    vantage=Vantage.SERVER,
    horizon=Horizon.REPORT,
)
Worlds = Callable[[np.random.Generator, int], tuple[np.ndarray, np.ndarray]]


def response(epsilon: float) -> Worlds:
    p = math.exp(epsilon) / (1 + math.exp(epsilon))
    return lambda rng, n: (
        (rng.random(n) < p).astype(float),
        (rng.random(n) < 1 - p).astype(float),
    )


def laplace(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    return rng.laplace(1.0, 1.0, n), rng.laplace(0.0, 1.0, n)


def nothing(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    return rng.normal(size=n), rng.normal(size=n)


def bounds(worlds: Worlds, runs: int, n: int) -> np.ndarray:
    estimator = ClopperPearson()
    found = []
    for child in np.random.SeedSequence(2026).spawn(runs):
        rng = np.random.default_rng(child)
        a, b = worlds(rng, n)
        found.append(
            estimator.bound(a, b, delta=0.0, confidence=0.95, scope=SCOPE, rng=rng).epsilon
        )
    return np.array(found)


CASES = [
    ("no leak", nothing, 0.0),
    ("randomized response, epsilon 0.1", response(0.1), 0.1),
    ("randomized response, epsilon 1", response(1.0), 1.0),
    ("randomized response, epsilon 4", response(4.0), 4.0),
    ("laplace, epsilon 1", laplace, 1.0),
]


@pytest.mark.parametrize(("name", "worlds", "truth"), CASES, ids=[case[0] for case in CASES])
def test_miss_rate_is_compatible_with_five_percent(name: str, worlds: Worlds, truth: float) -> None:
    found = bounds(worlds, runs=400, n=1_000)
    misses = int(np.sum(found > truth + 1e-12))
    assert float(clopper_pearson_lower(misses, 400, 0.001)) <= 0.05


@pytest.mark.calibration
@pytest.mark.parametrize(("name", "worlds", "truth"), CASES, ids=[case[0] for case in CASES])
def test_miss_rate_over_many_runs(name: str, worlds: Worlds, truth: float) -> None:
    found = bounds(worlds, runs=5_000, n=2_000)
    misses = int(np.sum(found > truth + 1e-12))
    print(f"\n{name}: bound above the truth in {misses} of 5000 runs ({misses / 50:.2f}%)")
    assert float(clopper_pearson_lower(misses, 5_000, 0.001)) <= 0.05


@pytest.mark.calibration
@pytest.mark.parametrize("n", [1_000, 10_000, 100_000])
def test_power_against_a_doubled_epsilon(n: int) -> None:
    """A claim of 0.5 on a mechanism of 1.0 is refuted in at least 90% of runs from n = 1,000."""
    found = bounds(response(1.0), runs=200, n=n)
    print(f"\nn={n}: median bound {np.median(found):.4f} of 1, refuted {np.mean(found > 0.5):.3f}")
    assert np.mean(found > 0.5) >= 0.9
