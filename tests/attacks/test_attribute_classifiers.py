"""Classifiers on inner products decide as scikit-learn's classifiers do on the columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC

from fedrec_auditor.attacks.attribute_attacks import (
    AttributeBayes,
    AttributeKnn,
    AttributeLogistic,
    AttributeMlp,
    AttributeSvc,
    AttributeTree,
    _log_likelihood,
)
from fedrec_auditor.attacks.base import Background
from fedrec_auditor.attacks.parts.inputs import (
    SUMMARY,
    InnerProducts,
    JointTable,
    add_input_tables,
    make_input_table,
)
from fedrec_auditor.attacks.parts.supervised import (
    MAJORITY,
    AttributeProblem,
    SupervisedAttack,
    get_macro_auc,
)
from fedrec_auditor.targets.components import Dense, Payload
from tests.attacks.synthetic import make_view, send
from tests.points import later

SHAPES = st.tuples(st.integers(0, 2**32 - 1), st.integers(2, 4), st.integers(1, 300), st.booleans())


def draw_problem(
    seed: int, classes: int, width: int, beside: bool
) -> tuple[AttributeProblem, np.ndarray, np.ndarray, np.ndarray]:
    """A draw of 40 known users of 100, and its columns."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(classes, size=100)
    table = rng.normal(size=(100, width)) + rng.normal(size=(classes, width))[codes] * 0.3
    known = np.sort(rng.permutation(100)[:40])
    unknown = np.setdiff1d(np.arange(100), known)
    side = rng.normal(size=(100, 3)) if beside else None
    labels = np.unique(codes[known], return_inverse=True)[1]
    read = make_input_table(table, np.arange(100))
    made = AttributeProblem(read, known, unknown, labels, side)
    return made, *made.make_train_and_test_rows(read.compute_values().astype(np.float64)), labels


@pytest.mark.parametrize(
    ("attack", "library", "scores", "off"),
    [
        (AttributeSvc(), SVC(class_weight="balanced"), "decision_function", 1e-6),
        (AttributeKnn(), KNeighborsClassifier(), "predict_proba", 1e-7),
        # both are within their optimiser's tolerance of the same minimum
        (
            AttributeLogistic(inverse_penalty=1.0),
            LogisticRegression(class_weight="balanced", max_iter=10_000, tol=1e-8),
            "predict_log_proba",
            1e-2,
        ),
    ],
    ids=("svc", "knn", "logistic"),
)
@settings(max_examples=40)
@given(shape=SHAPES)
def test_decisions_equal_those_of_scikit_learn(
    attack: Any, library: Any, scores: str, off: float, shape: tuple[int, int, int, bool]
) -> None:
    case, known, others, labels = draw_problem(*shape)
    if case.n_classes == 1:
        return
    guess = attack.guess(case, None, 0)
    expected = getattr(library.fit(known, labels), scores)(others)
    of_library = guess.scores[:, 1] if expected.ndim == 1 else guess.scores
    np.testing.assert_allclose(of_library, expected, rtol=0, atol=off * max(1, abs(expected).max()))
    if not isinstance(attack, AttributeLogistic):
        np.testing.assert_array_equal(guess.classes, library.predict(others))


@pytest.mark.parametrize("absent", [False, True])
def test_the_tree_reads_uploads_and_side_columns(absent: bool) -> None:
    """Leaves are pure for the known users; an absent sender has zeros."""
    rng = np.random.default_rng(0)
    table, side = rng.normal(size=(100, 20)), rng.normal(size=(100, 3))
    known, unknown = np.arange(0, 100, 3), np.setdiff1d(np.arange(100), np.arange(0, 100, 3))
    read = make_input_table(table, np.arange(5 if absent else 0, 100))
    codes = (side[:, 1] > 0).astype(np.int64)
    case = AttributeProblem(read, known, unknown, codes[known], side)
    attack = AttributeTree()
    found = attack.guess(case, attack.prepare_columns(read), 5)
    assert set(np.unique(found.scores)) == {0.0, 1.0}
    assert np.mean(found.classes == codes[unknown]) > 0.9
    blind = AttributeProblem(None, known, unknown, codes[known], side)
    assert np.mean(attack.guess(blind, None, 5).classes == codes[unknown]) > 0.9


@pytest.mark.parametrize("width", [10, 5000, later(600_000)])
def test_products_of_wide_tables_are_accurate(width: int) -> None:
    """Beyond some 10^9 multiplications, columns are added up in single precision."""
    table = np.random.default_rng(0).normal(size=(90, width)).astype(np.float32)
    found = InnerProducts.from_blocks([table[:, :7], table[:, 7:]], 90, width)
    exact = table.astype(np.float64) @ table.T.astype(np.float64)
    np.testing.assert_allclose(found.gram_matrix, exact, atol=1e-6 * width)
    np.testing.assert_allclose(found.row_sums, table.sum(axis=1, dtype=np.float64))


def test_the_reading_is_chosen_by_the_known_alone() -> None:
    """Labels of unknown users have no influence; an informative reading wins over noise."""
    rng = np.random.default_rng(0)
    codes = rng.integers(2, size=100)
    noise = make_input_table(rng.normal(size=(100, 50)), np.arange(100))
    signal = make_input_table(rng.normal(size=(100, 50)) + codes[:, None], np.arange(100))
    known, unknown = np.arange(0, 100, 3), np.setdiff1d(np.arange(100), np.arange(0, 100, 3))
    told, dull = (
        AttributeProblem(read, known, unknown, codes[known], None).score_ridge()
        for read in (signal, noise)
    )
    assert told > 0.95
    assert dull < 0.7


def test_the_common_part_of_noisy_columns_reveals_the_class() -> None:
    """120 of 400 users known, 400 noisy columns that a class moves along one direction.

    Distances hardly depend on the class; leading directions, learned from all messages, do: the AUC
    grows by five standard errors over draws.
    """
    gains = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        codes = rng.integers(2, size=400)
        means = 0.08 * (2 * codes - 1)[:, None] * rng.choice([-1.0, 1.0], 400)
        messages = {"sent": Dense(rng.normal(means), Payload.CHANGE)}
        read = add_input_tables(make_view(send(messages), users=400, items=7))
        background = Background(known_users=np.arange(120), known_classes=codes[:120], n_classes=2)
        new, old = (
            get_macro_auc(codes[120:], found.scores)
            for found in (
                AttributeKnn().infer(each, background, rng)
                for each in (read, read.with_inputs({SUMMARY: read.inputs[SUMMARY]}))
            )
        )
        gains.append(new - old)
    assert np.mean(gains) > 5 * np.std(gains, ddof=1) / np.sqrt(len(gains))


@pytest.mark.parametrize("rank", [2, 40])
def test_leading_directions_are_the_first_singular_vectors(rank: int) -> None:
    """Equal up to signs; zeros beyond the rank, and NaN if a message is not finite."""
    rng = np.random.default_rng(rank)
    left, right = (np.linalg.qr(rng.normal(size=(50, rank)))[0] for _ in range(2))
    table = ((left * 0.5 ** np.arange(rank)) @ right.T).astype(np.float32)
    found = InnerProducts.from_blocks([table], 50, 50).get_singular_vectors(5)
    kept = min(rank, 5)
    assert np.abs(found.T @ left)[:kept, :kept] == pytest.approx(np.eye(kept), abs=1e-3)
    assert not found[:, kept:].any()
    table[3, 4] = np.nan
    assert np.isnan(InnerProducts.from_blocks([table], 50, 50).get_singular_vectors(5)).all()


def test_combined_readings_are_their_columns_side_by_side() -> None:
    rng = np.random.default_rng(0)
    tables = {"a": rng.normal(size=(60, 5)), "b": 9 * rng.normal(size=(60, 70))}
    inputs = {name: make_input_table(table, np.arange(60)) for name, table in tables.items()}
    mixed = JointTable.combine(inputs, {"a": 1.0, "b": 0.25})
    scaled = [
        np.sqrt(weight) * values / np.linalg.norm(values)
        for weight, name in ((1.0, "a"), (0.25, "b"))
        for values in (inputs[name].compute_values(),)
    ]
    whole = np.concatenate(scaled, axis=1)
    np.testing.assert_allclose(mixed.inner_products.gram_matrix, whole @ whole.T, atol=1e-7)
    np.testing.assert_allclose(mixed.inner_products.row_sums, whole.sum(axis=1), atol=1e-6)
    assert mixed.width == 75


def test_bayes_is_the_likelihood_of_normal_columns_of_variance_1() -> None:
    """Likelihoods of each row from the means of all other rows, with squared means from pairs."""
    rng = np.random.default_rng(0)
    table, codes = rng.normal(size=(30, 4)), rng.integers(3, size=30)
    inner = table @ table.T
    found = _log_likelihood(inner, np.eye(3)[codes])
    for asked in range(30):
        for code in range(3):
            members = np.flatnonzero((codes == code) & (np.arange(30) != asked))
            mean = table[members].mean(axis=0)
            pairs = [inner[i, j] for i in members for j in members if i != j]
            expected = table[asked] @ mean - np.mean(pairs) / 2
            assert found[asked, code] == pytest.approx(expected)


@pytest.mark.parametrize(("lean", "gain"), [(0.3, 0.02), (0.0, -0.04)])
def test_bayes_learns_from_users_of_unknown_class(lean: float, gain: float) -> None:
    """Two classes with different rates for each item, and 60 known users of 600."""
    areas = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        codes = rng.integers(2, size=600)
        rates = expit(rng.normal(-1.5, 0.5, 300) + lean * rng.normal(size=(2, 300)))
        held = rng.random((600, 300)) < rates[codes]
        read = make_input_table(held.astype(float), np.arange(600))
        known, unknown = np.arange(60), np.arange(60, 600)
        case = AttributeProblem(read, known, unknown, codes[known], None)
        areas.append(
            [
                get_macro_auc(codes[unknown], attack.guess(case, None, 0).scores)
                for attack in (AttributeBayes(), AttributeBayes(steps=0))
            ]
        )
    taught, learned = np.mean(areas, axis=0)
    assert taught > learned + gain


def test_the_penalty_is_large_if_columns_are_uninformative() -> None:
    """Logistic regression with this penalty ranks better than with a penalty of 1."""
    gains, penalties = [], []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        codes = rng.integers(2, size=300)
        table = rng.normal(size=(300, 200)) + 0.1 * (2 * codes[:, None] - 1)
        known, unknown = np.arange(100), np.arange(100, 300)
        read = make_input_table(table, np.arange(300))
        case = AttributeProblem(read, known, unknown, codes[known], None)
        penalties.append(case.choose_ridge_penalty())
        fitted, fixed = (
            get_macro_auc(codes[unknown], attack.guess(case, None, 0).scores)
            for attack in (AttributeLogistic(), AttributeLogistic(inverse_penalty=1.0))
        )
        gains.append(fitted - fixed)
    assert np.mean(gains) > 0
    assert np.median(penalties) > 1


def test_uploads_rejected_by_cross_validation_still_rank_users(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All users get the most frequent class, but the scores order them by their uploads."""
    rng = np.random.default_rng(1)
    codes = (rng.random(200) < 0.25).astype(np.int64)
    told = rng.normal(size=(200, 30)) + 0.5 * codes[:, None]
    view = make_view(send({"update": Dense(told, Payload.CHANGE)}), users=200, items=7)
    known = np.arange(0, 200, 3)
    background = Background(known_users=known, known_classes=codes[known], n_classes=2)
    monkeypatch.setattr(SupervisedAttack, "_choose_way", lambda *_: MAJORITY)
    for attack in (AttributeSvc(), AttributeMlp(), AttributeBayes()):
        found = attack.infer(view, background, np.random.default_rng(0))
        assert found.input_name == MAJORITY
        assert not found.classes.any()
        assert get_macro_auc(codes[found.users], found.scores) > 0.8


@pytest.mark.parametrize("attack", [AttributeMlp(), AttributeLogistic(), AttributeBayes()])
def test_scores_are_log_probabilities(attack: Any) -> None:
    """The logit of one class alone would also order users by the logits of other classes."""
    case, *_ = draw_problem(0, 3, 20, True)
    found = attack.guess(case, None, 0)
    np.testing.assert_allclose(np.exp(found.scores).sum(axis=1), 1, atol=1e-5)


@pytest.mark.parametrize("attack", [AttributeMlp(), AttributeLogistic(), AttributeBayes()])
def test_users_far_from_the_known_ones_have_finite_scores(attack: Any) -> None:
    """Log-probabilities stay finite if a probability rounds to 0, and so do sums of scores."""
    codes, known = np.repeat([0, 1], 150), np.arange(0, 300, 2)
    table = np.random.default_rng(0).normal(size=(300, 5)) + 3 * codes[:, None]
    table[known + 1] *= 300
    read = make_input_table(table, np.arange(300))
    case = AttributeProblem(read, known, known + 1, codes[known], None)
    found = attack.guess(case, None, 0)
    assert np.isfinite(found.scores).all()
    assert len(np.unique(found.classes)) == 2


@pytest.mark.parametrize("seed", range(3))
def test_leave_one_out_is_the_fit_without_each(seed: int) -> None:
    """The closed form agrees with one fit per known user."""
    case, *_ = draw_problem(seed, 3, 20, False)
    among = case.gram_blocks.known_gram
    k = len(among)
    ridge = among / (np.trace(among) / k) + 1.0 + np.eye(k)
    truth = np.eye(case.n_classes)[case.class_codes]
    guessed = np.zeros_like(truth)
    for left in range(k):
        kept = np.arange(k) != left
        solved = np.linalg.solve(ridge[np.ix_(kept, kept)], truth[kept])
        guessed[left] = (ridge[left, kept]) @ solved
    areas = []
    for code in range(case.n_classes):
        is_member = case.class_codes == code
        ours, theirs = guessed[is_member, code], guessed[~is_member, code]
        areas.append(np.mean(ours[:, None] > theirs) + np.mean(ours[:, None] == theirs) / 2)
    assert case.score_ridge() == pytest.approx(np.mean(areas))
