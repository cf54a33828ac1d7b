"""Tests of leave-last-out and the two ranking protocols, against loops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.utility.held_out import compute_hr_dcg
from fedrec_auditor.auditor.utility.leave_last_out import NO_TIMES_NOTE, TIES_NOTE, hold_out
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.systems.base import Model
from tests.auditor.utility.scorer import Scorer


def make_data(dense: np.ndarray, times: np.ndarray | None = None) -> Interactions:
    ratings = sparse.csr_array(dense.astype(np.float32))
    return Interactions(
        name="made up",
        users=np.arange(dense.shape[0]),
        items=np.arange(dense.shape[1]),
        ratings=ratings,
        timestamps=None if times is None else times[dense > 0],
    )


@given(st.integers(0, 2**32 - 1))
def test_the_latest_interaction_is_held_out(seed: int) -> None:
    rng = np.random.default_rng(seed)
    dense = (rng.random((8, 12)) < 0.4) * rng.integers(1, 6, (8, 12))
    dense[0, :2] = 3
    times = rng.integers(0, 5, dense.shape)
    split = hold_out(make_data(dense, times), rng)
    for user, item in enumerate(split.items):
        held = np.flatnonzero(dense[user])
        kept = np.flatnonzero(split.training_data.ratings[[user]].toarray()[0])
        if len(held) < 2:
            assert item == -1
            np.testing.assert_array_equal(kept, held)
        else:
            assert times[user, item] == times[user, held].max()
            np.testing.assert_array_equal(kept, held[held != item])
    ratings = split.training_data.ratings
    table = ratings.toarray()
    np.testing.assert_array_equal(ratings.data, table[table > 0])


def test_ties_in_time_are_broken_at_random() -> None:
    dense = np.ones((4000, 6))
    times = np.tile([1, 9, 9, 2, 9, 9], (4000, 1))
    split = hold_out(make_data(dense, times), np.random.default_rng(0))
    assert split.n_tied_users == 4000
    counts = np.bincount(split.items, minlength=6)
    np.testing.assert_array_equal(counts[[0, 3]], 0)
    assert (np.abs(counts[[1, 2, 4, 5]] - 1000) < 5 * np.sqrt(4000 * 0.25 * 0.75)).all()
    rows = split.evaluate(Scorer(dense), Model(), confidence=0.95, rng=np.random.default_rng(0))
    assert {row.paper_note for row in rows} == {TIES_NOTE.format("4,000")}


def test_without_timestamps_a_random_interaction_is_held_out() -> None:
    dense = np.ones((200, 10))
    split = hold_out(make_data(dense), np.random.default_rng(0))
    assert len(set(split.items.tolist())) == 10
    rows = split.evaluate(Scorer(dense), Model(), confidence=0.95, rng=np.random.default_rng(0))
    assert {row.paper_note for row in rows} == {NO_TIMES_NOTE}


def test_data_without_an_item_to_hold_out_are_refused() -> None:
    with pytest.raises(InputError, match="two interactions"):
        hold_out(make_data(np.eye(4)), np.random.default_rng(0))


@given(st.integers(0, 15), st.integers(0, 15))
def test_gains_average_over_the_orders_of_ties(above: int, tied: int) -> None:
    positions = [above + step for step in range(tied + 1)]
    hit = np.mean([position < 10 for position in positions])
    gain = np.mean([1 / np.log2(p + 2) if p < 10 else 0.0 for p in positions])
    found = compute_hr_dcg(np.array([above]), np.array([tied]), 10)
    np.testing.assert_allclose(found[:, 0], [hit, gain])


def test_an_oracle_always_hits_and_its_opposite_never() -> None:
    rng = np.random.default_rng(2)
    data = make_data((rng.random((40, 200)) < 0.1) * 1.0 + np.eye(40, 200) + np.eye(40, 200, 1))
    split = hold_out(data, rng)
    table = np.zeros((40, 200))
    users = np.flatnonzero(split.items >= 0)
    table[users, split.items[users]] = 1.0
    for sign, expected in ((1, 1.0), (-1, 0.0)):
        rows = split.evaluate(Scorer(sign * table), Model(), confidence=0.95, rng=rng)
        assert [row.value for row in rows] == [expected] * 4


def test_history_is_never_ranked() -> None:
    """Training items have the highest scores, and must not lower the rank of the held-out item."""
    rng = np.random.default_rng(3)
    dense = np.zeros((30, 120))
    dense[:, :50] = 1
    split = hold_out(make_data(dense), rng)
    table = np.tile(np.arange(120.0)[::-1], (30, 1))
    table[np.arange(30), split.items] = 69.5  # above the unknown items, below the history
    rows = split.evaluate(Scorer(table), Model(), confidence=0.95, rng=rng)
    assert [row.value for row in rows] == [1.0] * 4
