"""Tests of held-out ratings: the split and the error, against counting by loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.utility.held_out_ratings import PROTOCOL, hold_out
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.systems.base import Model, NoScoresError, ReportedMetric
from tests.auditor.utility.scorer import Scorer


def draw_ratings(rng: np.random.Generator, users: int = 12, items: int = 15) -> np.ndarray:
    dense = (rng.random((users, items)) < 0.4) * rng.integers(1, 6, (users, items))
    dense[0, :3] = 3
    dense[1], dense[2] = 0, 0
    dense[2, 4] = 1  # one user without ratings, one with a single rating
    return dense.astype(np.float32)


@given(st.integers(0, 2**32 - 1))
def test_a_tenth_is_held_out_and_every_user_keeps_a_rating(seed: int) -> None:
    rng = np.random.default_rng(seed)
    dense = draw_ratings(rng)
    split = hold_out(Interactions.create(dense), rng)
    kept = split.training_data.ratings.toarray()
    assert len(split.ratings) == max(2, round(0.1 * np.count_nonzero(dense)))
    np.testing.assert_array_equal((kept > 0).any(axis=1), (dense > 0).any(axis=1))
    rebuilt = kept.astype(float)
    for user, item, value in zip(split.users, split.items, split.ratings, strict=True):
        assert kept[user, item] == 0
        rebuilt[user, item] = value
    np.testing.assert_array_equal(rebuilt, dense)


@given(st.integers(0, 2**32 - 1))
def test_the_error_is_the_mean_square_over_held_out_ratings(seed: int) -> None:
    rng = np.random.default_rng(seed)
    dense, table = draw_ratings(rng), rng.normal(3.0, 1.0, (12, 15))
    split = hold_out(Interactions.create(dense), rng)
    paper = ReportedMetric(metric="MSE", protocol=PROTOCOL, value=0.8, note="of a paper")
    target: Any = Scorer(table, reported_metrics=(paper,))
    (row,) = split.evaluate(target, Model(), confidence=0.95, rng=rng)
    kept = split.training_data.ratings.toarray()
    truth = dense[split.users, split.items]
    slow = [(x - table[u, i]) ** 2 for x, u, i in zip(truth, split.users, split.items, strict=True)]
    assert row.value == pytest.approx(np.mean(slow))
    assert row.random == pytest.approx(np.mean((truth - kept[kept > 0].mean(dtype=float)) ** 2))
    assert (row.metric, row.n, row.paper_value) == ("MSE", len(slow), 0.8)
    users = np.unique(split.users)
    sums = [np.sum(np.subtract(slow, np.mean(slow))[split.users == user]) for user in users]
    half = 1.959964 * np.sqrt(len(users) / (len(users) - 1) * np.square(sums).sum()) / len(slow)
    assert row.ci_high == pytest.approx(row.value + half, abs=1e-5)
    assert row.ci_low == pytest.approx(max(0.0, row.value - half), abs=1e-5)


def test_all_spare_ratings_are_held_out_equally_often() -> None:
    dense = np.ones((200, 5))
    seen = np.zeros((200, 5))
    for seed in range(200):
        split = hold_out(Interactions.create(dense), np.random.default_rng(seed))
        seen[split.users, split.items] += 1
    # of 20,000 ratings held out, each of 5 items has 4,000, within six standard deviations
    assert np.abs(seen.sum(axis=0) - 4000).max() < 6 * np.sqrt(20_000 * 0.16)


@pytest.mark.parametrize("dense", [np.eye(4), np.zeros((3, 3)), [[1.0, 2.0], [0.0, 0.0]]])
def test_too_few_ratings_are_refused(dense: Any) -> None:
    with pytest.raises(InputError, match="Expected 2 more ratings"):
        hold_out(Interactions.create(np.asarray(dense)), np.random.default_rng(0))


def test_equal_ratings_give_no_error() -> None:
    split = hold_out(Interactions.create(np.ones((4, 5))), np.random.default_rng(0))
    target: Any = Scorer(np.ones((4, 5)))
    reason = r"All 20 ratings are 1, so a constant predicts them\."
    with pytest.raises(NoScoresError, match=reason):
        split.evaluate(target, Model(), confidence=0.95, rng=np.random.default_rng(0))
