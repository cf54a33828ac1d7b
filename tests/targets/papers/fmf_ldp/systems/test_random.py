"""Random ranking: uniform, fixed once drawn, and free of everybody's interactions."""

from __future__ import annotations

import numpy as np
from scipy import stats

from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.papers.fmf_ldp.systems.baseline_systems import Random


def test_scores_are_uniform_fixed_and_the_users_own() -> None:
    data = Interactions.of(np.eye(200))
    model = Random().run(data, np.random.default_rng(0)).model
    every = Random().score(model, data, np.arange(200))
    np.testing.assert_array_equal(Random().score(model, data, np.array([7, 3])), every[[7, 3]])
    assert stats.kstest(every.ravel(), "uniform").pvalue > 1e-6
    best = np.bincount(every.argmax(axis=1), minlength=200)
    assert best.max() < 12  # a Poisson count of mean 1 in 200 cells, missed once in a million


def test_scores_depend_on_no_interaction() -> None:
    one, two = Interactions.of(np.eye(20)), Interactions.of(1 - np.eye(20))
    scores = [
        Random().score(Random().run(d, np.random.default_rng(3)).model, d, np.arange(20))
        for d in (one, two)
    ]
    np.testing.assert_array_equal(*scores)
