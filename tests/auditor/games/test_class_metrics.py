"""Figures of guessed classes against scikit-learn, and their intervals against the truth."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as reference

from fedrec_auditor.attacks.parts.supervised import macro_f1
from fedrec_auditor.auditor.games.metrics import GAIN, MACRO, NOT_ASKED, Guesses, estimates, mean_of


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(2, 60), st.integers(2, 5), st.integers(1, 3))
def test_figures_agree_with_scikit_learn(seed: int, n: int, classes: int, draws: int) -> None:
    """Means over draws, each over the users who were asked; ties in the scores included."""
    rng = np.random.default_rng(seed)
    truth, guessed = rng.integers(classes, size=n), rng.integers(classes, size=(draws, n))
    asked = rng.random((draws, n)) < 0.7
    asked[:, 0] = True
    guessed[~asked] = NOT_ASKED
    scores = rng.integers(6, size=(draws, n, classes)).astype(float)
    case = Guesses(truth=truth, guessed=guessed, classes=classes, scores=scores)
    found = estimates(case, confidence=0.9, rng=rng)
    expected: dict[str, list[float]] = {name: [] for name in found}
    for draw in range(draws):
        t, g, s = truth[asked[draw]], guessed[draw][asked[draw]], scores[draw][asked[draw]]
        for average in ("macro", "micro", "weighted"):
            expected[f"{average} F1"].append(
                reference.f1_score(
                    t, g, average=average, labels=np.arange(classes), zero_division=0
                )
            )
        present = np.unique(t)
        recalls = reference.recall_score(t, g, average=None, labels=present, zero_division=0)
        expected["balanced accuracy"].append(float(np.mean(recalls)))
        areas = [reference.roc_auc_score(t == c, s[:, c]) for c in present if len(present) > 1]
        expected["AUC"].append(float(np.mean(areas)) if areas else 0.5)
    for name, one in found.items():
        assert one.value == pytest.approx(np.mean(expected[name])), name
        assert 0 <= one.low <= one.value <= one.high <= 1
        assert one.n == np.count_nonzero(asked.any(axis=0))
    assert mean_of(case) == pytest.approx(found[MACRO].value)


def test_who_guesses_without_looking_has_the_mean_over_guesses() -> None:
    counts, probabilities = np.array([40, 15, 5]), np.array([[0.5, 0.4, 0.1]])
    rng = np.random.default_rng(0)
    truth = np.repeat(np.arange(3), counts)
    sampled = []
    for _ in range(20):
        guesses = rng.choice(3, p=probabilities[0], size=(500, len(truth)))
        tallies = Guesses(truth=truth, guessed=guesses, classes=3).tallies.sum(axis=1)
        sampled.append(macro_f1(tallies).mean())
    asked = np.zeros((1, len(truth)), dtype=np.int64)
    expected = mean_of(Guesses(truth=truth, guessed=asked, classes=3, shares=probabilities))
    error = np.std(sampled) / np.sqrt(len(sampled))
    assert abs(np.mean(sampled) - expected) < 4 * error


def test_a_gain_is_of_the_same_users_and_draws() -> None:
    """Over guesses that differ by little it is surer than either; over the same ones it is 0."""
    rng = np.random.default_rng(4)
    truth = rng.integers(2, size=300)
    worse = np.where(rng.random((3, 300)) < 0.7, truth, 1 - truth)
    better = np.where(rng.random((3, 300)) < 0.1, truth, worse)
    one, other = (Guesses(truth=truth, guessed=each, classes=2) for each in (better, worse))
    found = estimates(one, confidence=0.95, rng=rng, beside=other)
    gain = found[GAIN]
    assert gain.value == pytest.approx(found[MACRO].value - mean_of(other))
    assert 0.0 < gain.low < gain.high < gain.low + (found[MACRO].high - found[MACRO].low) / 2
    same = estimates(one, confidence=0.95, rng=rng, beside=one)[GAIN]
    assert same.low < same.value == 0.0 < same.high


def test_draws_widen_the_interval() -> None:
    """Two draws of known users, one of them lucky: users alone would not show the doubt."""
    truth = np.arange(400) % 2
    lucky, unlucky = truth, (np.arange(400) // 2) % 2
    case = Guesses(truth=truth, guessed=np.stack([lucky, unlucky]), classes=2)
    found = estimates(case, confidence=0.95, rng=np.random.default_rng(0))[MACRO]
    assert found.low < 0.5
    assert found.high == 1.0
    assert found.n == 400


def test_perfect_guesses_leave_the_doubt_of_so_many_users() -> None:
    truth = np.arange(50) % 2
    case = Guesses(
        truth=truth, guessed=np.tile(truth, (4, 1)), classes=2, scores=np.eye(2)[truth][None]
        .repeat(4, axis=0),
    )  # fmt: skip
    found = estimates(case, confidence=0.95, rng=np.random.default_rng(0))
    for one in found.values():
        assert (one.value, one.high) == (1.0, 1.0)
        assert one.low == pytest.approx(0.025 ** (1 / 50))
