"""The bound at all thresholds, and the curve from the same limits."""

from __future__ import annotations

import numpy as np
import pytest

from fedrec_auditor.auditor.worlds.estimators.all_thresholds import AllThresholds
from tests.contracts.worlds import gaussian, worlds_of


@pytest.mark.parametrize("delta", [0.0, 1e-3, 0.1])
def test_the_curve_is_that_of_the_bounds(delta: float) -> None:
    leak = gaussian(1.0)
    worlds = worlds_of(leak.a, leak.b)
    curve = AllThresholds().curve(
        worlds, confidence=0.9, samples=5_000, rng=np.random.default_rng(3)
    )
    bound = AllThresholds().bound(
        worlds, delta=delta, confidence=0.9, samples=5_000, rng=np.random.default_rng(3)
    )
    assert curve.epsilon(delta) == bound.epsilon > 0
    assert curve.delta(bound.epsilon) == pytest.approx(delta, abs=1e-12)
