from __future__ import annotations

import numpy as np
import pytest

from fedrec_auditor.attacks.readers.coordinate_reports import _typical
from fedrec_auditor.auditor.games.metrics import auc, roc
from tests.attacks.made import SKEWED, fcf, flipped, reported, scored


def area(values: np.ndarray, truth: np.ndarray) -> float:
    return auc(values.ravel(), truth.ravel())


@pytest.mark.parametrize(("noise", "least"), [(0.0, 1.0), (1.0, 0.9)])
def test_a_gradient_tells_own_items_from_others(noise: float, least: float) -> None:
    view, _ = fcf(SKEWED, np.random.default_rng(0), noise=noise)
    assert area(scored(view), SKEWED) >= least


def test_bits_add_to_popularity() -> None:
    """The log-odds are the channel's, exactly: ln(p/q) and ln((1-p)/(1-q)) on one item's scores."""
    view = flipped(SKEWED, np.random.default_rng(0), p=0.75, q=0.25)
    found = scored(view)
    bits = view.rounds[0].uploads.components["bits"].dense(np.arange(120)) == 1
    for item in (0, 40):
        column, seen = found[:, item], bits[:, item]
        assert column[seen].mean() - column[~seen].mean() == pytest.approx(2 * np.log(3))
    popularity = np.broadcast_to(SKEWED.sum(axis=0), SKEWED.shape)
    assert area(found, SKEWED) > max(area(popularity, SKEWED), area(1.0 * bits, SKEWED))


def test_reports_tell_members() -> None:
    """Alike users, as the attack assumes: items held by most of them, and many by few."""
    rng = np.random.default_rng(0)
    truth = rng.random((300, 60)) < 0.9 / (1 + np.arange(60) / 8)
    found = scored(reported(truth, rng, reports=1000, alpha=2.0))
    # Within an item the users' own reports decide, not the item's popularity.
    users = np.repeat(np.arange(300), 60)
    for values in (found, (found - found.mean(axis=0)).round(9)):
        measured = roc(values.ravel(), truth.ravel(), users, fprs=[0.01], confidence=0.999, rng=rng)
        assert measured.auc.low > 0.5


def test_no_privacy_budget_no_score() -> None:
    view = reported(SKEWED, np.random.default_rng(0), epsilon=1e-6)
    assert np.ptp(scored(view)) < 1e-3


def test_typical_vector_from_an_exact_mean() -> None:
    """Alike users and a noiseless mean gradient give the shares back, up to the grid of lengths."""
    rng = np.random.default_rng(0)
    items, x, alpha = rng.normal(0, 0.2, (300, 4)), np.array([0.6, -0.4, 0.3, 0.2]), 1.0
    share = 0.5 / (1 + np.arange(300) / 20)[:, None]
    prediction = items @ x
    touched = np.outer((1 + alpha) * (1 - prediction), x).clip(-1, 1)
    untouched = np.outer(-prediction, x).clip(-1, 1)
    mean = share * touched + (1 - share) * untouched
    found = _typical(mean, items, alpha, noise=1e-8)
    assert np.corrcoef(found[2], share[:, 0])[0, 1] > 0.95
