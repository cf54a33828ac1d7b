"""The posterior quantile of epsilon."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from fedrec_auditor.auditor.estimators.bayesian import Bayesian


@pytest.mark.parametrize(
    ("hits", "misses", "trials", "delta"),
    [(700, 300, 1_000, 0.0), (99, 1, 100, 0.01), (40, 0, 1_000, 1e-3), (70_000, 30_000, 10**5, 0)],
)
def test_it_is_the_quantile_of_the_posterior(
    hits: int, misses: int, trials: int, delta: float
) -> None:
    rng, draws = np.random.default_rng(0), 400_000
    p = rng.beta(hits + 0.5, trials - hits + 0.5, draws)
    q = rng.beta(misses + 0.5, trials - misses + 0.5, draws)
    found = Bayesian().epsilon(hits, misses, trials, delta=delta, alpha=0.05, share=0.5)
    below = np.count_nonzero(np.log(np.maximum(p - delta, 1e-300) / q) <= found)
    assert stats.binomtest(below, draws, 0.05).pvalue > 1e-6


def test_over_the_prior_it_misses_as_often_as_it_says() -> None:
    rng, runs, trials, missed = np.random.default_rng(1), 1_000, 50, 0
    for p, q in rng.beta(0.5, 0.5, (runs, 2)):
        counts = int(rng.binomial(trials, p)), int(rng.binomial(trials, q))
        found = Bayesian().epsilon(*counts, trials, delta=0.0, alpha=0.1, share=0.5)
        missed += found > max(0.0, np.log(p / q)) + 1e-12
    assert stats.binomtest(missed, runs, 0.1, "greater").pvalue > 1e-6
