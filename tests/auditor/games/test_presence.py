"""A bound for two removals, and the one that it is for one."""

from __future__ import annotations

import numpy as np
import pytest

from fedrec_auditor.accountants.losses.divergences import gaussian_epsilon
from fedrec_auditor.accountants.statements import Horizon, Unit, Vantage, any_pair
from fedrec_auditor.auditor.games.canary_game import Halved
from fedrec_auditor.auditor.worlds.estimators.lower_bound_estimators import JointBinomial
from fedrec_auditor.auditor.worlds.worlds import Worlds


@pytest.mark.parametrize("delta", [0.0, 1e-3, 0.05])
def test_half_a_bound_for_two_is_one_for_one(delta: float) -> None:
    """Two removals of 1 each under Gaussian, or at delta 0 Laplace, noise."""
    worlds = Worlds(
        names=("two are there", "none"),
        scope=any_pair(Unit.USER, Vantage.AGGREGATE, Horizon.ROUND),
        draw=lambda world, size, rng: (
            2.0 * (world == 0) + (rng.normal(size=size) if delta else rng.laplace(size=size))
        ),
    )
    true = gaussian_epsilon(delta, 1.0) if delta else 1.0
    estimator = Halved(estimator=JointBinomial(), claimed=true)
    found = estimator.bound(
        worlds, delta=delta, confidence=0.99, samples=20_000, rng=np.random.default_rng(1)
    )
    assert 0.5 * true < found.epsilon <= true
    assert found.delta == delta
    largest = estimator.largest(20_000, delta=delta, confidence=0.99)
    assert found.epsilon <= largest == pytest.approx(found.largest)
