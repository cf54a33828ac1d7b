"""The event of any shape, certified by two limits."""

from __future__ import annotations

import numpy as np

from fedrec_auditor.auditor.testing.estimators import Scores, estimate, worlds_of
from fedrec_auditor.auditor.worlds.estimators.clopper_pearson import ClopperPearson
from fedrec_auditor.auditor.worlds.estimators.likelihood_ratio import LikelihoodRatioEstimator


def test_an_event_may_be_two_intervals() -> None:
    """A scale tells the worlds apart: a large score of either sign, which no threshold joins."""

    def wide(rng: np.random.Generator, n: int) -> Scores:
        return rng.laplace(0, 3, n)

    def narrow(rng: np.random.Generator, n: int) -> Scores:
        return rng.laplace(0, 1, n)

    worlds = worlds_of(wide, narrow)
    found = estimate(LikelihoodRatioEstimator(), worlds, samples=20_000)
    assert found.epsilon > estimate(ClopperPearson(), worlds, samples=20_000).epsilon
    assert " or " in found.witness.output
    assert found.witness.probability_a > found.witness.probability_b
