"""Bounds that assume Gaussian scores, or a Gaussian trade-off."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special, stats

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.losses.gaussian import gaussian_epsilon
from fedrec_auditor.auditor.testing.estimators import estimate, gaussian, laplace, worlds_of
from fedrec_auditor.auditor.worlds.estimators.gaussian import GaussianEstimator, _least_mu
from fedrec_auditor.auditor.worlds.estimators.gaussian_trade_off import GaussianTradeOff
from fedrec_auditor.auditor.worlds.estimators.parts.binomial_limits import (
    clopper_pearson_lower,
    clopper_pearson_upper,
)
from fedrec_auditor.auditor.worlds.estimators.parts.counting import EventCounts


@pytest.mark.parametrize("n", [20, 200, 5_000])
def test_the_distance_of_the_means_is_that_of_the_noncentral_t(n: int) -> None:
    rng = np.random.default_rng(0)
    one, other = rng.normal(1, 1, n), rng.normal(0, 1, n)
    mu = _least_mu(one, other, 0.05)
    t = stats.ttest_ind(one, other).statistic
    assert stats.nct.sf(t, 2 * n - 2, mu / np.sqrt(2 / n)) == pytest.approx(0.025, rel=1e-3)


def test_scores_that_are_not_gaussian_show_nothing() -> None:
    leak = laplace(1.0)
    bound = estimate(GaussianEstimator(), worlds_of(leak.a, leak.b), delta=0.01, samples=2_000)
    assert bound.epsilon == 0
    assert "rejects that they are Gaussian" in bound.source
    wider = worlds_of(lambda rng, n: rng.normal(1, 2, n), lambda rng, n: rng.normal(0, 1, n))
    assert "deviations are equal" in estimate(GaussianEstimator(), wider, samples=2_000).source
    flat = worlds_of(lambda rng, n: np.ones(n), lambda rng, n: np.zeros(n))
    assert "constant" in estimate(GaussianEstimator(), flat, samples=2_000).source


def test_a_small_delta_is_resolved_where_no_count_does() -> None:
    leak, delta = gaussian(1.0), 1e-9
    worlds = worlds_of(leak.a, leak.b)
    for estimator, share in ((GaussianEstimator(), 0.93), (GaussianTradeOff(), 0.85)):
        found = estimate(estimator, worlds, delta=delta, samples=20_000).epsilon
        assert share * leak.truth(delta) < found <= leak.truth(delta)


def test_the_trade_off_passes_through_both_limits() -> None:
    low = clopper_pearson_lower(700, 1_000, 0.02)
    high = clopper_pearson_upper(300, 1_000, 0.03)
    mu = float(special.ndtri(low) - special.ndtri(high))
    found = GaussianTradeOff().epsilon(
        EventCounts(700, 1_000, 300, 1_000), delta=1e-5, alpha=0.05, share=0.4
    )
    assert found == pytest.approx(gaussian_epsilon(1e-5, mu), rel=1e-12)
    assert stats.norm.sf(stats.norm.isf(high) - mu) == pytest.approx(float(low), rel=1e-9)
    assert (
        GaussianTradeOff().epsilon(
            EventCounts(300, 1_000, 700, 1_000), delta=1e-5, alpha=0.05, share=0.4
        )
        == 0
    )


@pytest.mark.parametrize("estimator", [GaussianEstimator(), GaussianTradeOff()])
def test_delta_is_above_0(estimator: GaussianEstimator | GaussianTradeOff) -> None:
    leak = gaussian(1.0)
    with pytest.raises(InputError, match="Expected delta above 0"):
        estimate(estimator, worlds_of(leak.a, leak.b), delta=0.0)
    with pytest.raises(InputError, match="Expected delta above 0"):
        estimator.largest(100, delta=0.0, confidence=0.9)
