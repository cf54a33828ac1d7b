"""Tests of held-out users: the split and the counts of rivals, against loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.utility.held_out_users import HeldOutUsers, count_rivals, hold_out
from fedrec_auditor.targets.datasets.base import Attribute, Interactions
from fedrec_auditor.targets.systems.base import HoldOut, Model, UtilityTest
from tests.auditor.utility.scorer import Scorer

EVALUATION = UtilityTest(split=HoldOut.HELD_OUT_USERS, cutoffs=(3, 10))


def random_data(rng: np.random.Generator, users: int, items: int, rate: float) -> Interactions:
    table = (rng.random((users, items)) < rate) * rng.integers(1, 6, (users, items))
    codes = rng.integers(0, 3, users)
    return Interactions.create(
        table, attributes={"group": Attribute(codes=codes, categories=("a", "b", "c"))}
    )


@given(st.integers(0, 2**32 - 1))
def test_users_and_then_their_interactions_are_split(seed: int) -> None:
    rng = np.random.default_rng(seed)
    data = random_data(rng, 23, 12, 0.4)
    split = hold_out(data, rng)
    whole = data.ratings.toarray()
    assert split.training_data.n_users == 18
    assert sorted([*split.training_data.users, *split.tuning_data.users]) == list(range(23))
    training = split.training_data
    np.testing.assert_array_equal(training.ratings.toarray(), whole[training.users])
    np.testing.assert_array_equal(split.tuning_data.users, split.test_data.users)
    tune, test = split.tuning_data.ratings.toarray(), split.test_data.ratings.toarray()
    np.testing.assert_array_equal(tune + test, whole[split.tuning_data.users])
    assert not (tune * test).any()
    tuning = split.tuning_data
    np.testing.assert_array_equal((test > 0).sum(1), (whole[tuning.users] > 0).sum(1) // 2)
    codes = data.attributes["group"].codes
    np.testing.assert_array_equal(tuning.attributes["group"].codes, codes[tuning.users])


def test_every_user_is_held_out_in_some_split() -> None:
    data = random_data(np.random.default_rng(0), 10, 8, 1.0)
    seen: set[int] = set()
    tested: set[int] = set()
    for seed in range(100):  # each user is missed with probability 0.8^100 = 2e-10
        split = hold_out(data, np.random.default_rng(seed))
        seen |= set(split.test_data.users.tolist())
        tested |= set(split.test_data.ratings.indices.tolist())
    assert seen == set(range(10))
    assert tested == set(range(8))


@pytest.mark.parametrize("table", [np.ones((1, 5)), np.eye(6), np.zeros((6, 3))])
def test_too_little_data_is_refused(table: np.ndarray) -> None:
    with pytest.raises(InputError, match="with 2 interactions"):
        hold_out(Interactions.create(table), np.random.default_rng(0))


@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(1, 15), st.integers(1, 9))
def test_rivals_are_counted_as_by_loops(seed: int, users: int, items: int, levels: int) -> None:
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, levels, (users, items)).astype(float)  # so that scores have many ties
    kind = rng.integers(0, 3, (users, items))
    found = count_rivals(scores, kind == 0, kind == 1)
    expected = [
        [
            (scores[u][kind[u] == 1] > scores[u, i]).sum(),
            (scores[u][kind[u] == 1] == scores[u, i]).sum(),
            (kind[u] == 1).sum(),
        ]
        for u, i in zip(*np.nonzero(kind == 0), strict=True)
    ]
    np.testing.assert_array_equal(found, np.array(expected, dtype=int).reshape(-1, 3).T)


def compute_metrics(table: np.ndarray, split: HeldOutUsers) -> dict[str, float]:
    target: Any = Scorer(table, EVALUATION)
    rows = split.evaluate(target, Model(), confidence=0.95, rng=np.random.default_rng(0))
    assert all(row.protocol == "held-out users" for row in rows)
    return {row.metric: row.value for row in rows}


def test_metrics_average_over_items_and_then_over_users() -> None:
    rng = np.random.default_rng(3)
    split = hold_out(random_data(rng, 40, 30, 0.3), rng)
    table = rng.random((split.tuning_data.n_users, 30))
    hits, gains = [], []
    for user in range(split.tuning_data.n_users):
        tune, test = (d.ratings.toarray()[user] > 0 for d in (split.tuning_data, split.test_data))
        places = [
            1 + (table[user][~tune & ~test] > table[user, i]).sum() for i in np.nonzero(test)[0]
        ]
        if places:
            hits.append(np.mean([p <= 3 for p in places]))
            gains.append(np.mean([(p <= 3) / np.log2(1 + p) for p in places]))
    found = compute_metrics(table, split)
    assert found["HR@3"] == pytest.approx(np.mean(hits))
    assert found["NDCG@3"] == pytest.approx(np.mean(gains))


def test_history_and_other_tested_items_do_not_lower_ranks() -> None:
    rng = np.random.default_rng(5)
    split = hold_out(random_data(rng, 30, 60, 0.5), rng)
    met = (split.tuning_data.ratings.toarray() > 0) | (split.test_data.ratings.toarray() > 0)
    assert compute_metrics(met.astype(float), split)["NDCG@3"] == 1.0
    assert compute_metrics(-met.astype(float), split)["HR@10"] == 0.0
