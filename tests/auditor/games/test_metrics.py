"""Tests of class metrics against scikit-learn, and of their intervals against the truth."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats
from sklearn import metrics as reference

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.attacks.parts.supervised import get_macro_f1
from fedrec_auditor.auditor.games import metrics
from fedrec_auditor.auditor.games.metrics import (
    GAIN_METRIC,
    MACRO_F1,
    NOT_GUESSED_CODE,
    Guesses,
    estimate_metrics,
    get_mean_f1,
)
from tests.points import later


def is_covered(hits: int, trials: int) -> bool:
    """Whether the coverage of a 95% interval is not significantly below 91% (at level 1e-3)."""
    return bool(stats.binom.cdf(hits, trials, 0.91) > 1e-3)


def make_roc(scores: np.ndarray, members: np.ndarray, users: np.ndarray, **kw: Any) -> metrics.Roc:
    """ROC curve of scores; the baseline is the scores themselves unless ``kw`` has another."""
    rng = np.random.default_rng(0)
    asked = {"fprs": [0.1], "confidence": 0.95, "rng": rng, "baseline": scores} | kw
    return metrics.make_roc(scores, members, users, **asked)


@settings(max_examples=80)
@given(st.integers(0, 2**32 - 1), st.integers(2, 80), st.integers(1, 30))
def test_auc_and_tpr_agree_with_scikit_learn(seed: int, n: int, levels: int) -> None:
    """With few levels, most scores are tied."""
    rng = np.random.default_rng(seed)
    scores = rng.integers(levels, size=n).astype(float)
    members = rng.random(n) < 0.5
    members[:2] = [True, False]
    assert metrics.get_auc(scores, members) == pytest.approx(
        reference.roc_auc_score(members, scores)
    )
    levels = np.arange(1, np.count_nonzero(~members)) / np.count_nonzero(~members)
    fpr, tpr, _ = reference.roc_curve(members, scores, drop_intermediate=False)
    # If the curve is vertical at a level, the value is the upper end.
    expected = np.interp(levels * (1 + 1e-9), fpr, tpr)
    found = make_roc(scores, members, np.arange(n), fprs=levels.tolist())
    assert list(found.baseline_tpr.values()) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("n", [2, 5, 12, 60])
@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_intervals_of_few_users_are_those_of_student(n: int, confidence: float) -> None:
    """Normal replicates with the bootstrap's deviation give the interval of the t test."""
    spread = 0.02
    deviation = spread * np.sqrt((n - 1) / n) / np.sqrt(n)
    replicates = stats.norm.isf(np.linspace(0, 1, 4001)[1:-1], 0.5, deviation)
    found = metrics.make_bootstrap_interval(0.5, replicates, n, confidence)
    half = stats.t.isf((1 - confidence) / 2, n - 1) * spread / np.sqrt(n)
    assert [found.low, found.high] == pytest.approx([0.5 - half, 0.5 + half], abs=0.01 * half)


def test_infinite_scores_rank_first_and_last() -> None:
    scores = np.array([np.inf, 1.0, -np.inf, -np.inf])
    assert metrics.get_auc(scores, np.array([True, True, False, False])) == 1.0
    assert metrics.get_auc(scores, np.array([True, False, True, False])) == 0.625


@settings(max_examples=60)
@given(hnp.arrays(bool, (4, 9)), hnp.arrays(bool, (4, 9)))
def test_set_f1_against_sets(guessed: np.ndarray, truth: np.ndarray) -> None:
    for row in range(4):
        a, b = set(np.flatnonzero(guessed[row])), set(np.flatnonzero(truth[row]))
        expected = 2 * len(a & b) / (len(a) + len(b)) if a or b else 1.0
        assert metrics.compute_set_f1(guessed, truth)[row] == pytest.approx(expected)


@pytest.mark.calibration
def test_roc_intervals_cover_clustered_pairs() -> None:
    """Pairs of one user share a shift: an interval for independent pairs would be too narrow."""
    rng = np.random.default_rng(2)
    users = np.repeat(np.arange(80), 10)
    members = np.tile([True, False], 400)

    def draw(n_users: int) -> tuple[np.ndarray, np.ndarray]:
        m = np.tile([True, False], n_users * 5)
        gain = np.repeat(rng.normal(1.0, 1.0, n_users), 10)  # exposure of each user
        return gain * m + rng.normal(size=m.size), m

    scores, truth = draw(200_000)
    expected_auc = metrics.get_auc(scores, truth)
    expected_tpr = np.mean(scores[truth] > np.quantile(scores[~truth], 0.9))
    area = height = 0
    for _ in range(150):
        values, _ = draw(80)
        found = make_roc(values, members, users, rng=rng)
        area += found.auc.low <= expected_auc <= found.auc.high
        height += found.tpr[0.1].low <= expected_tpr <= found.tpr[0.1].high
    assert is_covered(area, 150)
    assert is_covered(height, 150)


def test_a_gain_compares_scores_on_the_same_users() -> None:
    """For similar scores its interval is far narrower than that of each area; for equal ones it is
    0.
    """
    rng = np.random.default_rng(4)
    users, members = np.repeat(np.arange(60), 10), np.tile([True, False], 300)
    scores = members + rng.normal(size=600) + rng.normal(size=60)[users]
    better = scores + 0.2 * members
    found = make_roc(better, members, users, baseline=scores, rng=rng)
    same = make_roc(scores, members, users, rng=rng)
    assert found.baseline_auc == same.auc.value == metrics.get_auc(scores, members)
    assert found.auc_gain.value == pytest.approx(found.auc.value - same.auc.value)
    assert found.tpr_gain[0.1].value == pytest.approx(found.tpr[0.1].value - same.tpr[0.1].value)
    assert 0.0 < found.auc_gain.low < found.auc_gain.high
    narrower = (found.auc.high - found.auc.low) / (found.auc_gain.high - found.auc_gain.low)
    assert narrower > 3
    assert same.auc_gain.low < same.auc_gain.value == 0.0 < same.auc_gain.high


@pytest.mark.calibration
def test_intervals_over_trainings_cover_shared_shifts() -> None:
    """Members of one training share a shift, which intervals over users miss."""
    rng = np.random.default_rng(8)
    users, trainings = np.tile(np.arange(60), 8), np.repeat(np.arange(8), 60)
    alone = both = 0
    for _ in range(40):
        members = rng.random(480) < 0.5
        scores = rng.normal(size=480) + np.repeat(rng.normal(0, 0.4, 8), 60) * members
        one = make_roc(scores, members, users, fprs=[], rng=rng)
        two = make_roc(scores, members, users, fprs=[], rng=rng, trainings=trainings)
        alone += one.auc.low <= 0.5 <= one.auc.high
        both += two.auc.low <= 0.5 <= two.auc.high
    assert not is_covered(alone, 40)
    assert is_covered(both, 40)


def test_roc_replicates_against_a_loop() -> None:
    """A bootstrap loop that draws users with replacement gives the same intervals.

    Pairs of one user share a gain: an interval that resampled pairs would be narrower.
    """
    rng = np.random.default_rng(3)
    users = np.repeat(np.arange(30), 6)
    members = np.tile([True, True, False, False, True, False], 30)
    gain = np.repeat(rng.normal(1.0, 3.0, 30), 6)
    scores = np.round(rng.normal(size=180) + gain * members, 1)
    found = make_roc(scores, members, users, confidence=0.9, rng=rng)
    replicates = []
    for _ in range(2000):
        rows = (rng.integers(30, size=30)[:, None] * 6 + np.arange(6)).ravel()
        replicates.append(metrics.get_auc(scores[rows], members[rows]))
    low, high = np.quantile(replicates, [0.05, 0.95])
    # Quantiles of 1000 and 2000 replicates: about 0.05 standard deviations of error each.
    assert found.auc.low == pytest.approx(low, abs=0.3 * np.std(replicates))
    assert found.auc.high == pytest.approx(high, abs=0.3 * np.std(replicates))


def test_mean_intervals_cover_and_perfect_scores_stay_uncertain() -> None:
    rng = np.random.default_rng(4)
    hits = 0
    for _ in range(200):
        found = metrics.estimate_mean(rng.beta(2, 5, size=60), confidence=0.95, rng=rng)
        hits += found.low <= 2 / 7 <= found.high
    assert is_covered(hits, 200)
    perfect = metrics.estimate_mean(np.ones(50), confidence=0.95, rng=rng)
    assert (perfect.low, perfect.high) == (pytest.approx(0.025 ** (1 / 50)), 1.0)
    nothing = metrics.estimate_mean(np.zeros(50), confidence=0.95, rng=rng)
    assert (nothing.low, nothing.high) == (0.0, pytest.approx(1 - 0.025 ** (1 / 50)))


def test_share_is_clopper_pearson() -> None:
    found = metrics.estimate_share(np.arange(20) < 3, confidence=0.95)
    assert found.value == 0.15
    assert found.low == pytest.approx(stats.beta.ppf(0.025, 3, 18))
    assert found.high == pytest.approx(stats.beta.ppf(0.975, 4, 17))


@pytest.mark.parametrize("fpr", [0.0, 0.009, 1.0, float("nan")])
def test_rates_below_the_resolution_are_omitted(fpr: float) -> None:
    scores, members = np.arange(200.0), np.arange(200) % 2 == 0
    assert set(make_roc(scores, members, np.arange(200), fprs=[fpr, 0.01]).tpr) == {0.01}


def test_the_curve_rises_within_its_band() -> None:
    rng = np.random.default_rng(6)
    members = rng.random(400) < 0.5
    scores = np.round(rng.normal(size=400) + members, 1)
    band = make_roc(scores, members, np.arange(400)).band
    assert band.fpr[0] == pytest.approx(1 / np.count_nonzero(~members))
    assert band.tpr[-1] == 1.0
    assert (band.low <= band.tpr).all()
    assert (band.tpr <= band.high).all()
    assert (np.diff(band.tpr) >= 0).all()


def test_the_area_of_each_user_is_that_of_its_pairs() -> None:
    rng = np.random.default_rng(7)
    users = rng.integers(9, size=120)
    members = rng.random(120) < 0.4
    members[users == 3] = True
    scores = np.round(rng.normal(size=120), 1)
    found = metrics.get_user_aucs(scores, members, users)
    for place, user in enumerate(np.unique(users)):
        mine = users == user
        if user == 3:
            assert np.isnan(found[place])
        else:
            assert found[place] == pytest.approx(metrics.get_auc(scores[mine], members[mine]))


def test_scores_without_a_metric_are_refused() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(InputError, match="NaN"):
        metrics.get_auc(np.array([1.0, np.nan]), np.array([True, False]))
    with pytest.raises(InputError, match="got only one of them"):
        metrics.get_auc(np.arange(2.0), np.array([True, True]))
    with pytest.raises(InputError, match="finite"):
        metrics.estimate_mean(np.array([]), confidence=0.9, rng=rng)
    with pytest.raises(InputError, match="confidence"):
        metrics.estimate_mean(np.ones(3), confidence=1.0, rng=rng)


@pytest.mark.calibration
@pytest.mark.parametrize("n", [1, 2, later(3), later(5)])
def test_random_scores_of_few_users_are_not_above_chance(n: int) -> None:
    """A bootstrap alone would put chance below the interval in up to a quarter of the trials."""
    rng = np.random.default_rng(n)
    users, members = np.repeat(np.arange(n), 40), np.tile(np.arange(40) < 20, n)
    above = 0
    for _ in range(150):
        scores = rng.normal(size=40 * n)
        found = make_roc(scores, members, users, rng=rng)
        above += found.auc.low > 0.5
        assert found.auc.low <= found.auc.value <= found.auc.high
        assert (found.band.low <= found.band.tpr).all()
    assert above <= stats.binom.isf(1e-3, 150, 0.025)
    assert n > 1 or (found.auc.low, found.auc.high) == (0, 1)


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(2, 60), st.integers(2, 5), st.integers(1, 3))
def test_metrics_agree_with_scikit_learn(seed: int, n: int, classes: int, draws: int) -> None:
    """Metrics are means over draws, each over users of unknown class; scores have ties."""
    rng = np.random.default_rng(seed)
    truth, guessed = rng.integers(classes, size=n), rng.integers(classes, size=(draws, n))
    unknown = rng.random((draws, n)) < 0.7
    unknown[:, 0] = True
    guessed[~unknown] = NOT_GUESSED_CODE
    scores = rng.integers(6, size=(draws, n, classes)).astype(float)
    case = Guesses(true_classes=truth, class_guesses=guessed, n_classes=classes, scores=scores)
    result = estimate_metrics(case, confidence=0.9, rng=rng)
    expected: dict[str, list[float]] = {name: [] for name in result}
    for draw in range(draws):
        t, g, s = truth[unknown[draw]], guessed[draw][unknown[draw]], scores[draw][unknown[draw]]
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
    for name, one in result.items():
        assert one.value == pytest.approx(np.mean(expected[name])), name
        assert 0 <= one.low <= one.value <= one.high <= 1
        assert one.n_users == np.count_nonzero(unknown.any(axis=0))
    assert get_mean_f1(case) == pytest.approx(result[MACRO_F1].value)


def test_random_guesses_have_the_mean_metric_over_guesses() -> None:
    counts, probabilities = np.array([40, 15, 5]), np.array([[0.5, 0.4, 0.1]])
    rng = np.random.default_rng(0)
    truth = np.repeat(np.arange(3), counts)
    sampled = []
    for _ in range(20):
        guesses = rng.choice(3, p=probabilities[0], size=(500, len(truth)))
        counted = Guesses(true_classes=truth, class_guesses=guesses, n_classes=3).counts_by_class
        tallies = counted.sum(axis=1)
        sampled.append(get_macro_f1(tallies).mean())
    asked = np.zeros((1, len(truth)), dtype=np.int64)
    expected = get_mean_f1(
        Guesses(true_classes=truth, class_guesses=asked, n_classes=3, guess_probs=probabilities)
    )
    error = np.std(sampled) / np.sqrt(len(sampled))
    assert abs(np.mean(sampled) - expected) < 4 * error


def test_a_gain_compares_guesses_on_the_same_users_and_draws() -> None:
    """For similar guesses its interval is narrower than either; for equal guesses it is 0."""
    rng = np.random.default_rng(4)
    truth = rng.integers(2, size=300)
    worse = np.where(rng.random((3, 300)) < 0.7, truth, 1 - truth)
    better = np.where(rng.random((3, 300)) < 0.1, truth, worse)
    good = Guesses(true_classes=truth, class_guesses=better, n_classes=2)
    bad = Guesses(true_classes=truth, class_guesses=worse, n_classes=2)
    found = estimate_metrics(good, confidence=0.95, rng=rng, baseline=bad)
    gain = found[GAIN_METRIC]
    assert gain.value == pytest.approx(found[MACRO_F1].value - get_mean_f1(bad))
    assert 0.0 < gain.low < gain.high < gain.low + (found[MACRO_F1].high - found[MACRO_F1].low) / 2
    same = estimate_metrics(good, confidence=0.95, rng=rng, baseline=good)[GAIN_METRIC]
    assert same.low < same.value == 0.0 < same.high


def test_draws_widen_the_interval() -> None:
    """One of two draws of known users is lucky: an interval over users alone is too narrow."""
    truth = np.arange(400) % 2
    lucky, unlucky = truth, (np.arange(400) // 2) % 2
    case = Guesses(true_classes=truth, class_guesses=np.stack([lucky, unlucky]), n_classes=2)
    found = estimate_metrics(case, confidence=0.95, rng=np.random.default_rng(0))[MACRO_F1]
    assert found.low < 0.5
    assert found.high == 1.0
    assert found.n_users == 400


def test_perfect_guesses_have_the_interval_of_n_users() -> None:
    truth = np.arange(50) % 2
    case = Guesses(
        true_classes=truth,
        class_guesses=np.tile(truth, (4, 1)),
        n_classes=2,
        scores=np.eye(2)[truth][None].repeat(4, axis=0),
    )
    found = estimate_metrics(case, confidence=0.95, rng=np.random.default_rng(0))
    for one in found.values():
        assert (one.value, one.high) == (1.0, 1.0)
        assert one.low == pytest.approx(0.025 ** (1 / 50))
