"""Limits at many thresholds at once, against a slow reading of their definition and the truth."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as nps
from scipy import stats

from fedrec_auditor.auditor.worlds.estimators.parts.binomial_limits import clopper_pearson_lower
from fedrec_auditor.auditor.worlds.estimators.parts.threshold_band import (
    _FAMILIES,
    _RANKS,
    _SHARES,
    ThresholdBand,
    largest_epsilon,
)

SCORES = nps.arrays(
    np.float64,
    st.integers(1, 60),
    elements=st.sampled_from([-math.inf, -1.5, 0.0, 0.25, 1.0, 3.0, math.inf]),
)
ALPHA = 0.05


@given(SCORES, SCORES)
def test_it_is_two_limits_at_every_rank(one: np.ndarray, other: np.ndarray) -> None:
    assume(not np.isin(np.concatenate([one, other]), (0, 1)).all())
    band = ThresholdBand.of(one, other, ALPHA)
    expected = []
    for p, q in ((one, other), (other, one)):
        for above in (True, False):
            for rank, share in zip(_RANKS.tolist(), _SHARES.tolist(), strict=True):
                if rank > len(q):
                    break
                ordered = sorted(q.tolist(), reverse=above)
                cut = ordered[rank - 1]
                hits = sum((x > cut) if above else (x < cut) for x in p.tolist())
                error = ALPHA * share / _FAMILIES / 2
                high = stats.beta.ppf(1 - error, rank, len(q) - rank + 1)
                expected.append((float(clopper_pearson_lower(hits, len(p), error)), high))
    assert np.allclose(np.stack([band.low, band.high], axis=1), expected, rtol=1e-9)


def test_shares_of_the_error_add_up_to_one() -> None:
    assert _SHARES.sum() == pytest.approx(1)


def test_all_limits_hold_together() -> None:
    misses, runs, n = 0, 1_000, 300
    for rng in np.random.default_rng(4).spawn(runs):
        band = ThresholdBand.of(rng.normal(1, 1, n), rng.normal(0, 1, n), 0.2)
        cut = band.thresholds
        shifted = np.where(band.first, cut - 1, cut), np.where(band.first, cut, cut - 1)
        p, q = (np.where(band.above, stats.norm.sf(x), stats.norm.cdf(x)) for x in shifted)
        misses += bool(((band.low > p) | (band.high < q)).any())
    assert stats.binomtest(misses, runs, 0.2, "greater").pvalue > 1e-6
    assert misses > 0.02 * runs  # a band that never misses is wider than it says


def test_the_curve_and_the_renyi_divergence_stay_below_the_truth() -> None:
    rng = np.random.default_rng(7)
    band = ThresholdBand.of(rng.normal(1, 1, 100_000), rng.normal(0, 1, 100_000), ALPHA)
    epsilons = np.linspace(0, 3, 31)
    truth = stats.norm.cdf(0.5 - epsilons) - np.exp(epsilons) * stats.norm.cdf(-0.5 - epsilons)
    found = band.delta(epsilons)
    assert (found <= truth).all()
    assert (found[:8] >= 0.9 * truth[:8]).all()
    for order in (1.5, 2.0, 8.0):
        assert 0.2 * order / 2 < band.renyi(order) <= order / 2
    for epsilon, delta in zip(epsilons[:20].tolist(), found[:20].tolist(), strict=True):
        assert band.epsilon(delta) == pytest.approx(epsilon, abs=1e-6)


@pytest.mark.parametrize("size", [1.0, 3.0])
def test_scores_apart_show_the_most_there_is(size: float) -> None:
    one, other = np.full(500, size), np.zeros(500)
    band = ThresholdBand.of(one, other, ALPHA)
    for delta in (0.0, 1e-3, 0.2):
        assert band.epsilon(delta) == pytest.approx(
            largest_epsilon(one, other, delta=delta, alpha=ALPHA), rel=1e-12
        )
    assert ThresholdBand.of(np.ones(500), np.ones(500), ALPHA).epsilon(0.0) == 0
    assert ThresholdBand.of(np.ones(500), np.ones(500), ALPHA).renyi(2.0) == 0
