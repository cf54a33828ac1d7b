"""Tests that a system with ``learns`` beats popularity, or two means, if data have structure.

Tastes are so clear that every comparison holds by ten standard errors over users and seeds.
"""

from __future__ import annotations

import numpy as np
import pytest

from fedrec_auditor.auditor.plan.plan import Plan, make_target
from fedrec_auditor.auditor.utility import hold_out
from fedrec_auditor.reports.record.rows import UtilityRow
from fedrec_auditor.targets.datasets.base import Interactions


def draw_tastes(rng: np.random.Generator, own: float, others: float) -> Interactions:
    """Ratings of 120 users of four tastes and 80 items.

    An item is rated with probability ``own`` in the user's taste, else ``others``. Ratings depend
    on the tastes of user and item such that neither has a mean of its own.
    """
    users, items = rng.integers(4, size=120), np.arange(80) % 4
    alike = users[:, None] == items
    met = rng.random(alike.shape) < np.where(alike, own, others)
    opposite = (users[:, None] + items) % 2 == 0
    ratings = np.where(opposite, 4.5, 1.5) + 0.25 * rng.normal(size=alike.shape)
    return Interactions.create(np.where(met, np.clip(ratings, 1, 5), 0.0))


def measure(name: str, metric: str, **settings: object) -> UtilityRow:
    """First row of the metric in one training."""
    target = make_target(name, Plan(settings={name: settings}))
    rng = np.random.default_rng(0)
    likely = (0.9, 0.02) if metric == "NDCG" else (0.6, 0.3)
    held = hold_out(target.evaluation, draw_tastes(rng, *likely), rng)
    run = target.run(held.training_data, rng, n_kept_rounds=1)
    rows = held.evaluate(target, run.model, confidence=0.95, rng=rng)
    return next(row for row in rows if row.metric.startswith(metric))


@pytest.mark.parametrize("name", ["fedmf", "fedlightgcn", "fedncf", "fedrec"])
def test_recommendations_beat_popularity(name: str) -> None:
    row = measure(name, "NDCG", learns=True)
    assert row.baseline is not None
    assert row.baseline.difference.ci_low > 0
    assert row.value > measure(name, "NDCG").ci_high


@pytest.mark.parametrize("name", ["fmf-vfl", "fmf-hfl"])
def test_predicted_ratings_beat_two_means(name: str) -> None:
    row = measure(name, "MSE", learns=True)
    assert row.baseline is not None
    assert row.baseline.difference.ci_high < 0
    assert row.value < measure(name, "MSE").ci_low
