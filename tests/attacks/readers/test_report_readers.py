"""Evidence from flipped bits, and priors compared with those of full knowledge."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit

from fedrec_auditor.attacks.readers.base import Evidence, compute_posterior, fit_prior
from fedrec_auditor.attacks.readers.report_readers import FlippedBitsReader, fit_activity_log_odds
from fedrec_auditor.auditor.games.metrics import compute_set_f1
from tests.attacks.synthetic import SKEWED, flip, reconstruct

P1, Q1 = np.e / (1 + np.e), 1 / (1 + np.e)  # symmetric flipping at epsilon 1


def read_evidence(view: Any) -> Evidence:
    return FlippedBitsReader().read(view, np.arange(view.public.n_users))


def test_asymmetric_flipping_proves_every_reported_zero() -> None:
    view = flip(SKEWED, np.random.default_rng(0), p=1.0, q=np.exp(-1))
    bits = view.rounds[0].uploads.components["bits"].to_dense(np.arange(120))
    found = reconstruct(view)
    np.testing.assert_array_equal(found.is_proved, bits == 0)
    assert not found.items[found.is_proved].any()
    assert not SKEWED[found.is_proved].any()


def test_no_flipping_gives_the_truth() -> None:
    found = reconstruct(flip(SKEWED, np.random.default_rng(0), p=1.0, q=0.0))
    np.testing.assert_array_equal(found.items, SKEWED)
    assert found.is_proved.all()


def test_log_odds_add_up_over_uploads() -> None:
    """T (2 mean - 1) ln((1 - q) / q) in closed form, for symmetric flipping."""
    view = flip(SKEWED, np.random.default_rng(0), p=P1, q=Q1, rounds=7)
    rounds = [sent.to_dense(np.arange(120)) for _, sent in view.find_linked_rounds("bits")]
    mean = np.mean(rounds, axis=0)
    np.testing.assert_allclose(read_evidence(view).log_ratio, 7 * (2 * mean - 1) * 1.0, atol=1e-9)
    once = reconstruct(flip(SKEWED, np.random.default_rng(0), p=P1, q=Q1))
    often = reconstruct(view)
    assert compute_set_f1(often.items, SKEWED).mean() > compute_set_f1(once.items, SKEWED).mean()


def test_posteriors_are_calibrated() -> None:
    """Among entries of posterior about r, a share of about r are interactions."""
    rng = np.random.default_rng(3)
    rows = rng.uniform(0.5, 1.5, 800)[:, None] * rng.uniform(0.02, 0.5, 200)[None, :]
    truth = rng.random(rows.shape) < rows
    found = compute_posterior(read_evidence(flip(truth, rng, p=0.8, q=0.3)))
    for low in (0.05, 0.2, 0.4, 0.6):
        bin_ = (found >= low) & (found < low + 0.15)
        count = np.count_nonzero(bin_)
        error = abs(truth[bin_].mean() - found[bin_].mean())
        # Four standard errors, and 0.03 for a prior that is a product, odds against shares.
        assert count > 500
        assert error < 4 * np.sqrt(0.25 / count) + 0.03


def test_an_uninformative_channel_leaves_the_prior() -> None:
    found = read_evidence(flip(SKEWED, np.random.default_rng(0), p=0.5, q=0.5))
    assert not found.log_ratio.any()
    assert not found.item_log_odds.any()
    assert not found.activity_log_odds.any()


@pytest.mark.parametrize("spread", [0.5, 1.0, 1.6])
def test_activity_is_the_likeliest_under_the_fitted_distribution(spread: float) -> None:
    """Compared with a grid: a normal distribution on 400 steps of exact marginals.

    The distribution is over all users; each user's activity is near its most probable value.
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
    found = fit_activity_log_odds(np.where(sent, 1.0, -1.0), items)
    assert np.sqrt(np.mean((found - expected) ** 2)) < 0.1 * spread


GRID = np.linspace(0.0, 1.0, 2002)[1:-1]


def test_shares_behind_flipped_bits_are_nearly_as_good_as_bayes_rule() -> None:
    """The error from 80 users' reports is within a fifth of that with a known distribution."""
    rng, p, q = np.random.default_rng(0), 0.7, 0.3
    shares = rng.beta(2.0, 8.0, size=1_000)
    truth = rng.random((80, 1_000)) < shares
    result = FlippedBitsReader().read(flip(truth, rng, p=p, q=q), np.arange(80))
    again = flip(truth, np.random.default_rng(0), p=p, q=q)
    (sent,) = again.rounds[0].uploads.components.values()
    ones = np.asarray(sent.to_dense(np.arange(80))).sum(axis=0)
    chances = stats.binom.pmf(np.arange(81)[:, None], 80, q + (p - q) * GRID)
    chances *= stats.beta.pdf(GRID, 2.0, 8.0)
    means = (chances @ GRID / chances.sum(axis=1))[ones]
    best, plain = (
        np.sqrt(np.mean((each - shares) ** 2)) for each in (means, (ones / 80 - q) / (p - q))
    )
    assert np.sqrt(np.mean((expit(result.item_log_odds) - shares) ** 2)) < 1.2 * best < 0.9 * plain
    assert np.abs(result.activity_log_odds).max() < 0.3  # all users are equally active


@pytest.mark.parametrize("sure", [0.7, 0.9])
def test_the_prior_is_the_likeliest_share_with_half_an_observation_of_all(sure: float) -> None:
    """Compared with a grid of shares; an item with only positive evidence is not certain."""
    rng, step = np.random.default_rng(1), np.log(sure / (1 - sure))
    truth = rng.random((12, 40)) < np.append(rng.beta(1.0, 4.0, size=38), [0.0, 1.0])
    heard = np.where(rng.random(truth.shape) < sure, truth, ~truth)
    heard[:, -2:] = [False, True]
    ratio = step * (2.0 * heard - 1.0)

    def likeliest(rows: np.ndarray, overall: float) -> np.ndarray:
        score = np.log1p(np.expm1(rows)[:, :, None] * GRID).sum(axis=1)
        score += 0.5 * (overall * np.log(GRID) + (1 - overall) * np.log1p(-GRID))
        return GRID[score.argmax(axis=1)]

    overall = likeliest(ratio.reshape(1, -1), 0.5)[0]
    items, activity = fit_prior(Evidence(users=np.arange(12), log_ratio=ratio))
    assert expit(items) == pytest.approx(likeliest(ratio.T, overall), abs=0.002)
    own = likeliest(ratio, overall)
    assert activity == pytest.approx(np.log(own / own.mean()), abs=0.05)
    assert 0.01 < expit(items).min() < expit(items).max() < 0.99
