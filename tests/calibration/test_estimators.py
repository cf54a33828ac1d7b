"""Simulated miss rate and power of every estimator, at sizes that the contract has no time for.

The miss rate is the share of runs whose bound exceeds the truth: nominally at most 5%. It is
compatible with that if its 99.9% Clopper-Pearson interval reaches 5%.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from fedrec_auditor.auditor.estimators.base import Estimator
from fedrec_auditor.auditor.families import FAMILIES
from fedrec_auditor.auditor.testing.estimators import (
    WORLDS,
    estimates,
    response,
)

pytestmark = pytest.mark.calibration
RUNS = 5_000
WIDER = {**WORLDS, "response 0.1": response(0.1), "response 4": response(4.0)}


@pytest.fixture(params=FAMILIES["estimators"].names())
def estimator(request: pytest.FixtureRequest) -> Estimator:
    made: Estimator = FAMILIES["estimators"].member(request.param)()
    return made


@pytest.mark.parametrize(("delta", "confidence"), [(0.0, 0.95), (0.0, 0.6), (0.3, 0.95)])
@pytest.mark.parametrize("world", WIDER)
def test_miss_rate_over_many_runs(
    estimator: Estimator, world: str, delta: float, confidence: float
) -> None:
    if math.isinf(WIDER[world].truth(delta)):
        delta = 0.01
    truth = WIDER[world].truth(delta)
    asked = {"delta": delta, "confidences": (confidence,), "runs": RUNS}
    found = estimates(estimator, WIDER[world], n=2_000, **asked)
    misses = int(np.count_nonzero(found > truth + 1e-12))
    print(f"\n{world}, {asked}: over {truth:.4g} in {misses} ({misses / RUNS:.2%})")
    assert stats.binomtest(misses, RUNS, 1 - confidence, "greater").pvalue >= 0.001


@pytest.mark.parametrize("n", [1_000, 10_000, 100_000])
def test_power_against_a_doubled_epsilon(estimator: Estimator, n: int) -> None:
    """A claim of 0.5 on a mechanism of 1.0 is refuted in at least 90% of runs from n = 1,000."""
    found = estimates(estimator, response(1.0), delta=0.0, confidences=(0.95,), runs=200, n=n)
    print(f"\nn={n}: median bound {np.median(found):.4f} of 1, refuted {np.mean(found > 0.5):.3f}")
    assert np.mean(found > 0.5) >= 0.9
