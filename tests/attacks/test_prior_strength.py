"""Priors that are estimated come near those of who knows what there is to know."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit

from fedrec_auditor.attacks.parts.prior import prior
from fedrec_auditor.attacks.readers.base import Evidence
from fedrec_auditor.attacks.readers.flipped_bits import FlippedBits
from tests.attacks.made import flipped

GRID = np.linspace(0.0, 1.0, 2002)[1:-1]


def test_shares_behind_flipped_bits_are_nearly_as_good_as_bayes_rule() -> None:
    """Of 80 users' reports: within a fifth of the error of who knows how shares are spread."""
    rng, p, q = np.random.default_rng(0), 0.7, 0.3
    shares = rng.beta(2.0, 8.0, size=1_000)
    truth = rng.random((80, 1_000)) < shares
    found = FlippedBits().read(flipped(truth, rng, p=p, q=q), np.arange(80))
    (sent,) = (
        flipped(truth, np.random.default_rng(0), p=p, q=q).rounds[0].uploads.components.values()
    )
    ones = np.asarray(sent.dense(np.arange(80))).sum(axis=0)
    chances = stats.binom.pmf(np.arange(81)[:, None], 80, q + (p - q) * GRID)
    chances *= stats.beta.pdf(GRID, 2.0, 8.0)
    means = (chances @ GRID / chances.sum(axis=1))[ones]
    best, plain = (
        np.sqrt(np.mean((each - shares) ** 2)) for each in (means, (ones / 80 - q) / (p - q))
    )
    assert np.sqrt(np.mean((expit(found.items) - shares) ** 2)) < 1.2 * best < 0.9 * plain
    assert np.abs(found.activity).max() < 0.3  # all users are as active


@pytest.mark.parametrize("sure", [0.7, 0.9])
def test_the_prior_is_the_likeliest_share_with_half_an_observation_of_all(sure: float) -> None:
    """Against a grid of shares; an item of which all evidence is for it is not certain."""
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
    items, activity = prior(Evidence(users=np.arange(12), log_ratio=ratio))
    assert expit(items) == pytest.approx(likeliest(ratio.T, overall), abs=0.002)
    own = likeliest(ratio, overall)
    assert activity == pytest.approx(np.log(own / own.mean()), abs=0.05)
    assert 0.01 < expit(items).min() < expit(items).max() < 0.99
