from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import expit

from fedrec_auditor.attacks.parts.prior import posterior
from fedrec_auditor.attacks.readers.base import Evidence
from fedrec_auditor.attacks.readers.flipped_bits import FlippedBits, fit_activity
from fedrec_auditor.auditor.games.metrics import set_f1
from tests.attacks.made import SKEWED, flipped, reconstructed

P1, Q1 = np.e / (1 + np.e), 1 / (1 + np.e)  # symmetric flipping at epsilon 1


def evidence(view: Any) -> Evidence:
    return FlippedBits().read(view, np.arange(view.public.n_users))


def test_asymmetric_flipping_proves_every_reported_zero() -> None:
    view = flipped(SKEWED, np.random.default_rng(0), p=1.0, q=np.exp(-1))
    bits = view.rounds[0].uploads.components["bits"].dense(np.arange(120))
    found = reconstructed(view)
    np.testing.assert_array_equal(found.certain, bits == 0)
    assert not found.items[found.certain].any()
    assert not SKEWED[found.certain].any()


def test_no_flipping_gives_the_truth() -> None:
    found = reconstructed(flipped(SKEWED, np.random.default_rng(0), p=1.0, q=0.0))
    np.testing.assert_array_equal(found.items, SKEWED)
    assert found.certain.all()


def test_log_odds_add_up_over_uploads() -> None:
    """T (2 mean - 1) ln((1 - q) / q) in closed form, for symmetric flipping."""
    view = flipped(SKEWED, np.random.default_rng(0), p=P1, q=Q1, rounds=7)
    mean = np.mean([sent.dense(np.arange(120)) for _, sent in view.component("bits")], axis=0)
    np.testing.assert_allclose(evidence(view).log_ratio, 7 * (2 * mean - 1) * 1.0, atol=1e-9)
    once = reconstructed(flipped(SKEWED, np.random.default_rng(0), p=P1, q=Q1))
    often = reconstructed(view)
    assert set_f1(often.items, SKEWED).mean() > set_f1(once.items, SKEWED).mean()


def test_posteriors_are_calibrated() -> None:
    """Among entries of posterior about r, a share of about r are interactions."""
    rng = np.random.default_rng(3)
    rows = rng.uniform(0.5, 1.5, 800)[:, None] * rng.uniform(0.02, 0.5, 200)[None, :]
    truth = rng.random(rows.shape) < rows
    found = posterior(evidence(flipped(truth, rng, p=0.8, q=0.3)))
    for low in (0.05, 0.2, 0.4, 0.6):
        bin_ = (found >= low) & (found < low + 0.15)
        count = np.count_nonzero(bin_)
        error = abs(truth[bin_].mean() - found[bin_].mean())
        # Four standard errors, and 0.03 for a prior that is a product, odds against shares.
        assert count > 500
        assert error < 4 * np.sqrt(0.25 / count) + 0.03


def test_a_channel_that_says_nothing_leaves_the_prior() -> None:
    found = evidence(flipped(SKEWED, np.random.default_rng(0), p=0.5, q=0.5))
    assert not found.log_ratio.any()
    assert not found.items.any()
    assert not found.activity.any()


def test_activity_is_nearer_to_the_truth_than_that_of_the_mean_user() -> None:
    """Estimates of each user alone are farther away."""
    rng = np.random.default_rng(2)
    share = 0.05 * np.exp(rng.normal(0, 1, 400) - 0.5)
    found = evidence(flipped(rng.random((400, 300)) < share[:, None], rng, p=0.73, q=0.27))
    error = np.log(share) - found.activity
    assert np.var(error) < np.var(np.log(share))


@pytest.mark.parametrize("spread", [0.5, 1.0, 1.6])
def test_activity_is_the_likeliest_under_the_law_that_fits_all_users(spread: float) -> None:
    """Against a grid of activities: its normal law by 400 steps on exact marginal likelihoods.

    The law is one of all users, and each user's own place is near the most probable one.
    """
    rng, grid = np.random.default_rng(5), np.linspace(-8, 8, 401)
    items = rng.normal(-2.5, 1, 800)
    truth = rng.random((150, 800)) < expit(items + rng.normal(0, spread, (150, 1)))
    sent = rng.random(truth.shape) < np.where(truth, P1, Q1)
    ones = Q1 + (P1 - Q1) * expit(items + grid[:, None])
    chance = sent @ np.log(ones).T + ~sent @ np.log1p(-ones).T
    chance = np.exp(chance - chance.max(axis=1, keepdims=True))
    mean, variance = 0.0, 1.0
    for _ in range(400):
        law = np.exp(-((grid - mean) ** 2) / 2 / variance)
        weight = chance * law
        weight /= weight.sum(axis=1, keepdims=True)
        mean = float((weight @ grid).mean())
        variance = float((weight @ (grid - mean) ** 2).mean())
    expected = grid[(chance * law).argmax(axis=1)]
    found = fit_activity(np.where(sent, 1.0, -1.0), items)
    assert np.sqrt(np.mean((found - expected) ** 2)) < 0.1 * spread
