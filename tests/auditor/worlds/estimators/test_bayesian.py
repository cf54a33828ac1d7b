"""The posterior quantile of epsilon."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from fedrec_auditor.auditor.worlds.estimators.bayesian import Bayesian
from fedrec_auditor.auditor.worlds.estimators.parts.counting import EventCounts


@pytest.mark.parametrize(
    ("counts", "delta"),
    [
        (EventCounts(700, 1_000, 300, 1_000), 0.0),
        (EventCounts(99, 100, 1, 100), 0.01),
        (EventCounts(40, 1_000, 0, 1_000), 1e-3),
        (EventCounts(9, 10, 30_000, 10**5), 0.0),
    ],
)
def test_it_is_the_quantile_of_the_posterior(counts: EventCounts, delta: float) -> None:
    rng, draws = np.random.default_rng(0), 400_000
    hits, trials, misses, others = counts
    p = rng.beta(hits + 0.5, trials - hits + 0.5, draws)
    q = rng.beta(misses + 0.5, others - misses + 0.5, draws)
    found = Bayesian().epsilon(counts, delta=delta, alpha=0.05, share=0.5)
    below = np.count_nonzero(np.log(np.maximum(p - delta, 1e-300) / q) <= found)
    assert stats.binomtest(below, draws, 0.05).pvalue > 1e-6


def test_over_the_prior_it_misses_as_often_as_it_says() -> None:
    rng, runs, trials, missed = np.random.default_rng(1), 400, 50, 0
    for p, q in rng.beta(0.5, 0.5, (runs, 2)):
        hits, misses = (int(rng.binomial(trials, chance)) for chance in (p, q))
        counts = EventCounts(hits, trials, misses, trials)
        found = Bayesian().epsilon(counts, delta=0.0, alpha=0.1, share=0.5)
        missed += found > max(0.0, np.log(p / q)) + 1e-12
    assert stats.binomtest(missed, runs, 0.1, "greater").pvalue > 1e-6
