"""The tree against scikit-learn's, and every split of it against all others."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.tree import DecisionTreeClassifier

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.attacks.parts.decision_tree import DecisionTree, Part, SortedColumns

SEEDS = st.integers(0, 2**32 - 1)


def drawn(seed: int, columns: int, levels: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """80 rows with ties, and their classes, numbered from 0 without gaps among the first 40."""
    rng = np.random.default_rng(seed)
    values = (rng.integers(levels, size=(80, columns)) * 0.37 - 1).astype(np.float32)
    codes = rng.integers(classes, size=80)
    codes[:classes] = np.arange(classes)
    return values, codes


def grown(values: np.ndarray, codes: np.ndarray, seed: int = 0) -> np.ndarray:
    """Shares of all rows, by a tree of the first 40."""
    table = SortedColumns.of(values)
    tree = DecisionTree([Part(table, np.arange(40))], codes[:40], seed)
    return tree.shares([Part(table, np.arange(80))])


@settings(max_examples=60)
@given(SEEDS, st.integers(1, 60), st.integers(2, 4))
def test_one_column_gives_the_tree_of_scikit_learn(seed: int, levels: int, classes: int) -> None:
    """With more columns equally good splits are chosen at random by both."""
    values, codes = drawn(seed, 1, levels, classes)
    expected = DecisionTreeClassifier(random_state=0).fit(values[:40], codes[:40])
    np.testing.assert_allclose(grown(values, codes), expected.predict_proba(values))


def impurity(codes: np.ndarray) -> float:
    """Gini impurity, times the number of rows."""
    return float(len(codes) - np.square(np.bincount(codes)).sum() / len(codes))


@settings(max_examples=30)
@given(SEEDS, st.integers(2, 9), st.integers(2, 30), st.integers(2, 4))
def test_every_split_is_the_best_there_is(
    seed: int, columns: int, levels: int, classes: int
) -> None:
    values, codes = drawn(seed, columns, levels, classes)
    rows = np.arange(40)
    tree = DecisionTree([Part(SortedColumns.of(values), rows)], codes[:40], seed)
    members = {0: rows}
    for node, (column, threshold, child) in enumerate(tree._nodes):
        inside = members[node]
        np.testing.assert_array_equal(
            np.bincount(codes[inside], minlength=classes), tree._counts[node]
        )
        found = [
            impurity(codes[inside[low]]) + impurity(codes[inside[~low]])
            for each in range(columns)
            for value in np.unique(values[inside, each])[:-1]
            for low in [values[inside, each] <= value]
        ]
        if column < 0:
            assert not found or len(np.unique(codes[inside])) == 1
            continue
        low = values[inside, column] <= threshold
        members[child], members[child + 1] = inside[low], inside[~low]
        reached = impurity(codes[inside[low]]) + impurity(codes[inside[~low]])
        assert reached == pytest.approx(min(found), abs=1e-9)


def test_columns_in_parts_and_other_rows_are_one_table() -> None:
    values, codes = drawn(1, 12, 200, 3)
    one, two = SortedColumns.of(values[:, :5]), SortedColumns.of(values[::-1, 5:].copy())
    rows, all_rows = np.arange(40), np.arange(80)
    tree = DecisionTree([Part(one, rows), Part(two, 79 - rows)], codes[:40], 0)
    found = tree.shares([Part(one, all_rows), Part(two, 79 - all_rows)])
    np.testing.assert_array_equal(found, grown(values, codes))


def test_a_seed_chooses_among_equally_good_splits() -> None:
    values, codes = drawn(2, 50, 5, 2)
    assert any((grown(values, codes, 1) != grown(values, codes, seed)).any() for seed in range(9))


def test_too_many_rows_are_refused() -> None:
    with pytest.raises(InputError, match="32,768"):
        SortedColumns.of(np.zeros((32768, 1), dtype=np.float32))
