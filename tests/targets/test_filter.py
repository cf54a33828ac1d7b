"""The filter against one that drops a user or an item at a time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.datasets.base import Attribute, Interactions
from fedrec_auditor.targets.datasets.synthetic import Synthetic
from fedrec_auditor.targets.filter import Filter
from tests.contracts.laws import check_ranges


def interactions(table: np.ndarray) -> Interactions:
    n_users, n_items = table.shape
    data = Interactions.of(table)
    codes = np.arange(n_users) % 2
    return Interactions.of(
        table,
        timestamps=np.arange(data.ratings.nnz),
        attributes={"gender": Attribute(codes=codes, categories=("F", "M"))},
        genres=np.arange(n_items)[:, None] % 3 == np.arange(3),
        genre_names=("a", "b", "c"),
        titles=tuple(f"item {item}" for item in range(n_items)),
    )


def survivors(
    table: np.ndarray, min_user: int, min_item: int, items_first: bool
) -> tuple[list[int], list[int]]:
    """One after another, in either order: the same is left."""
    users, items = list(range(table.shape[0])), list(range(table.shape[1]))
    while True:
        weak_users = [u for u in users if np.count_nonzero(table[u, items]) < min_user]
        weak_items = [i for i in items if np.count_nonzero(table[users, i]) < min_item]
        if weak_items and (items_first or not weak_users):
            items.remove(weak_items[0])
        elif weak_users:
            users.remove(weak_users[0])
        else:
            return users, items


@given(
    st.tuples(st.integers(1, 9), st.integers(1, 9)),
    st.integers(0, 2**32),
    st.integers(0, 4),
    st.integers(0, 4),
    st.booleans(),
)
def test_what_is_left_is_what_dropping_one_by_one_leaves(
    shape: tuple[int, int], seed: int, min_user: int, min_item: int, items_first: bool
) -> None:
    rng = np.random.default_rng(seed)
    table = rng.integers(1, 6, shape) * (rng.random(shape) < rng.random())
    data = interactions(table.astype(float))
    users, items = survivors(table, min_user, min_item, items_first)
    one = Filter(min_user=min_user, min_item=min_item)
    if not table[np.ix_(users, items)].any() and (min_user or min_item):
        with pytest.raises(InputError, match="Lower the filter"):
            one(data)
        return
    left = one(data)
    assert left.users.tolist() == users
    assert left.items.tolist() == items
    np.testing.assert_array_equal(left.ratings.toarray(), table[np.ix_(users, items)])
    times = data.ratings.copy()
    times.data = np.arange(1.0, times.nnz + 1, dtype=np.float32)
    expected = times.toarray()[np.ix_(users, items)]
    assert (left.timestamps + 1).tolist() == expected[expected > 0].tolist()
    assert left.attributes["gender"].codes.tolist() == [user % 2 for user in users]
    assert left.titles == tuple(f"item {item}" for item in items)
    assert left.genres.argmax(axis=1).tolist() == [item % 3 for item in items]


def test_one_pass_would_not_do() -> None:
    table = np.array([[1.0, 1, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]])
    assert Filter(min_user=2, min_item=2)(interactions(table)).n_users == 2


def test_no_limits_leave_the_data_alone() -> None:
    data = interactions(np.array([[0.0, 1], [0, 0]]))
    assert Filter()(data) is data
    assert Filter(min_user=1)(data).users.tolist() == [0]
    assert Filter(min_user=1)(data).items.tolist() == [0, 1]


def test_a_filtered_data_set_keeps_its_promise() -> None:
    data = Filter(min_user=20, min_item=10)(Synthetic(n_users=200, n_items=100).load())
    assert np.diff(data.ratings.indptr).min() >= 20
    assert np.bincount(data.ratings.indices, minlength=data.n_items).min() >= 10


def test_low_ratings_are_dropped_before_interactions_are_counted() -> None:
    data = interactions(np.array([[5.0, 4, 3, 0], [4, 1, 0, 0], [3, 2, 0, 5]]))
    left = Filter(min_rating=4)(data)
    assert left.ratings.toarray().tolist() == [[5, 4, 0, 0], [4, 0, 0, 0], [0, 0, 0, 5]]
    assert Filter(min_rating=4, min_user=2)(data).users.tolist() == [0]
    with pytest.raises(InputError, match="Expected ratings of 6 and more"):
        Filter(min_rating=6)(data)


def test_limits_are_not_negative() -> None:
    check_ranges(Filter())
