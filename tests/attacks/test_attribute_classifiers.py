"""Classifiers on inner products decide as scikit-learn's do on the columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC

from fedrec_auditor.attacks.attribute_attacks import (
    AttributeKnn,
    AttributeLogistic,
    AttributeSvc,
    AttributeTree,
)
from fedrec_auditor.attacks.parts.inputs import table_input
from fedrec_auditor.attacks.parts.products import Products
from fedrec_auditor.attacks.parts.supervised import Problem

SHAPES = st.tuples(st.integers(0, 2**32 - 1), st.integers(2, 4), st.integers(1, 300), st.booleans())


def problem(
    seed: int, classes: int, width: int, beside: bool
) -> tuple[Problem, np.ndarray, np.ndarray, np.ndarray]:
    """A draw of 40 known of 100 users, and the columns that it is of."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(classes, size=100)
    table = rng.normal(size=(100, width)) + rng.normal(size=(classes, width))[codes] * 0.3
    known = np.sort(rng.permutation(100)[:40])
    unknown = np.setdiff1d(np.arange(100), known)
    side = rng.normal(size=(100, 3)) if beside else None
    labels = np.unique(codes[known], return_inverse=True)[1]
    read = table_input(table, np.arange(100))
    made = Problem(read, known, unknown, labels, side)
    return made, *made.columns(read.values().astype(np.float64)), labels


@pytest.mark.parametrize(
    ("attack", "library", "scores", "off"),
    [
        (AttributeSvc(), SVC(class_weight="balanced"), "decision_function", 1e-6),
        (AttributeKnn(), KNeighborsClassifier(), "predict_proba", 1e-7),
        # both are within what their optimiser leaves open of the one minimum
        (
            AttributeLogistic(),
            LogisticRegression(class_weight="balanced", max_iter=10_000, tol=1e-8),
            "decision_function",
            1e-3,
        ),
    ],
    ids=("svc", "knn", "logistic"),
)
@settings(max_examples=40)
@given(shape=SHAPES)
def test_it_decides_as_scikit_learn(
    attack: Any, library: Any, scores: str, off: float, shape: tuple[int, int, int, bool]
) -> None:
    case, known, others, labels = problem(*shape)
    if case.classes == 1:
        return
    guess = attack.guess(case, None, 0)
    expected = getattr(library.fit(known, labels), scores)(others)
    of_library = guess.scores[:, 1] if expected.ndim == 1 else guess.scores
    np.testing.assert_allclose(of_library, expected, rtol=0, atol=off * max(1, abs(expected).max()))
    if not isinstance(attack, AttributeLogistic):
        np.testing.assert_array_equal(guess.codes, library.predict(others))


@pytest.mark.parametrize("absent", [False, True])
def test_the_tree_reads_uploads_and_what_is_beside(absent: bool) -> None:
    """Its leaves are pure of the known users; an absent sender has zeros."""
    rng = np.random.default_rng(0)
    table, side = rng.normal(size=(100, 20)), rng.normal(size=(100, 3))
    known, unknown = np.arange(0, 100, 3), np.setdiff1d(np.arange(100), np.arange(0, 100, 3))
    read = table_input(table, np.arange(5 if absent else 0, 100))
    codes = (side[:, 1] > 0).astype(np.int64)
    case = Problem(read, known, unknown, codes[known], side)
    attack = AttributeTree()
    found = attack.guess(case, attack.table(read), 5)
    assert set(np.unique(found.scores)) == {0.0, 1.0}
    assert np.mean(found.codes == codes[unknown]) > 0.9
    blind = Problem(None, known, unknown, codes[known], side)
    assert np.mean(attack.guess(blind, None, 5).codes == codes[unknown]) > 0.9


@pytest.mark.parametrize("width", [10, 5000, 600_000])
def test_products_of_wide_tables_lose_nothing_that_matters(width: int) -> None:
    """Beyond some 10^9 multiplications columns are added up in single precision."""
    table = np.random.default_rng(0).normal(size=(90, width)).astype(np.float32)
    found = Products.of([table[:, :7], table[:, 7:]], 90, width)
    exact = table.astype(np.float64) @ table.T.astype(np.float64)
    np.testing.assert_allclose(found.inner, exact, atol=1e-6 * width)
    np.testing.assert_allclose(found.sums, table.sum(axis=1, dtype=np.float64))


def test_the_reading_is_chosen_by_the_known_alone() -> None:
    """Other labels of the unknown change nothing; a reading that tells wins over noise."""
    rng = np.random.default_rng(0)
    codes = rng.integers(2, size=100)
    noise = table_input(rng.normal(size=(100, 50)), np.arange(100))
    signal = table_input(rng.normal(size=(100, 50)) + codes[:, None], np.arange(100))
    known, unknown = np.arange(0, 100, 3), np.setdiff1d(np.arange(100), np.arange(0, 100, 3))
    told, dull = (
        Problem(read, known, unknown, codes[known], None).leave_one_out()
        for read in (signal, noise)
    )
    assert told > 0.95
    assert dull < 0.7


@pytest.mark.parametrize("seed", range(3))
def test_leave_one_out_is_the_fit_without_each(seed: int) -> None:
    """The closed form against as many fits as there are known users."""
    case, *_ = problem(seed, 3, 20, False)
    among = case.products.among
    k = len(among)
    ridge = among / (np.trace(among) / k) + 1.0 + 0.1 * np.eye(k)
    truth = np.eye(case.classes)[case.codes]
    guessed = np.zeros_like(truth)
    for left in range(k):
        kept = np.arange(k) != left
        solved = np.linalg.solve(ridge[np.ix_(kept, kept)], truth[kept])
        guessed[left] = (ridge[left, kept]) @ solved
    areas = []
    for code in range(case.classes):
        ours, theirs = guessed[case.codes == code, code], guessed[case.codes != code, code]
        areas.append(np.mean(ours[:, None] > theirs) + np.mean(ours[:, None] == theirs) / 2)
    assert case.leave_one_out() == pytest.approx(np.mean(areas))
