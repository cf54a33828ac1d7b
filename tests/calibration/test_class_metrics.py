"""Calibration of intervals of classification metrics over users, draws and rare classes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from sklearn import metrics as reference

from fedrec_auditor.attacks.parts.supervised import get_macro_auc, get_macro_f1
from fedrec_auditor.auditor.games.metrics import (
    BALANCED_ACC,
    GAIN_METRIC,
    MACRO_F1,
    NOT_GUESSED_CODE,
    Guesses,
    estimate_metrics,
)

pytestmark = pytest.mark.calibration


def compute_metric(name: str, case: Guesses) -> float:
    """Metric of one draw over all users, by scikit-learn."""
    asked = case.class_guesses[0] != NOT_GUESSED_CODE
    truth, guess, scores = (
        case.true_classes[asked],
        case.class_guesses[0][asked],
        case.scores[0][asked],
    )
    if name == MACRO_F1:
        return float(reference.f1_score(truth, guess, average="macro"))
    if name == "AUC":
        return float(reference.roc_auc_score(truth, scores[:, 1]))
    return float(reference.balanced_accuracy_score(truth, guess))


@pytest.mark.parametrize("spread", [0.0, 0.3])
@pytest.mark.parametrize("draws", [2, 5, 10])
def test_intervals_cover_users_and_draws(draws: int, spread: float) -> None:
    """Guesses share a shift within a draw, and users a difficulty over all draws.

    The truth is the mean over both. At 95%, 150 intervals each cover it no less often than 91%
    would explain (at level 1e-3).
    """
    rng = np.random.default_rng(7)
    names = (MACRO_F1, "balanced accuracy", "AUC")

    def play(users: int, r: int) -> Guesses:
        truth = (rng.random(users) < 0.3).astype(np.int64)
        sign = 2 * truth - 1
        hard = rng.normal(size=users)
        shift = rng.normal(0, spread, size=(r, 1)) * sign
        score = 0.7 * sign + hard + shift + 0.5 * rng.normal(size=(r, users))
        guessed = (score > 0).astype(np.int64)
        guessed[rng.random((r, users)) < 0.3] = NOT_GUESSED_CODE
        return Guesses(
            true_classes=truth,
            class_guesses=guessed,
            n_classes=2,
            scores=np.stack([-score, score], axis=2),
        )

    pieces = [play(4_000, 1) for _ in range(400)]
    truth = {name: float(np.mean([compute_metric(name, one) for one in pieces])) for name in names}
    hits = dict.fromkeys(names, 0)
    for _ in range(150):
        found = estimate_metrics(play(300, draws), confidence=0.95, rng=rng)
        for name in names:
            hits[name] += found[name].low <= truth[name] <= found[name].high
    for name in names:
        assert stats.binom.cdf(hits[name], 150, 0.91) > 1e-3, (name, hits[name])


def draw_guesses(users: int, classes: int, draws: int, rng: np.random.Generator) -> Guesses:
    """Users of ``classes`` classes, of which class k is k times rarer than the first."""
    shares = 1 / np.arange(1, classes + 1)
    shares /= shares.sum()
    truth = rng.choice(classes, size=users, p=shares)
    likely = np.log(shares) + 1.5 * np.eye(classes)[truth] + 0.7 * rng.gumbel(size=(users, classes))
    scores = likely + 0.3 * rng.gumbel(size=(draws, users, classes))
    guessed = scores.argmax(axis=2)
    guessed[rng.random(guessed.shape) < 0.3] = NOT_GUESSED_CODE
    return Guesses(true_classes=truth, class_guesses=guessed, n_classes=classes, scores=scores)


def blind(case: Guesses) -> Guesses:
    """Guesses of the same users and draws by class frequencies only."""
    shares = 1 / np.arange(1, case.n_classes + 1)
    return replace(case, guess_probs=np.tile(shares / shares.sum(), (len(case.class_guesses), 1)))


def compute_metrics(case: Guesses) -> dict[str, float]:
    """Metrics of a large number of users, taken as the true values."""
    tally, blinded = (each.counts_by_class.sum(axis=1) for each in (case, blind(case)))
    asked = case.class_guesses[0] != NOT_GUESSED_CODE
    assert case.scores is not None
    return {
        MACRO_F1: float(get_macro_f1(tally).mean()),
        GAIN_METRIC: float((get_macro_f1(tally) - get_macro_f1(blinded)).mean()),
        BALANCED_ACC: float((tally[0, 0] / tally[0, 1]).mean()),
        "AUC": get_macro_auc(case.true_classes[asked], case.scores[0][asked]),
    }


@pytest.mark.parametrize(
    ("classes", "users"), [(2, 30), (2, 600), (7, 100), (21, 30), (21, 200), (21, 600)]
)
def test_intervals_cover_rare_classes(classes: int, users: int) -> None:
    """Some of 21 classes have a user or two among 200, and some none among 30.

    At 95%, 200 intervals each cover the truth no less often than 93% would explain (at level 1e-3).
    """
    rng = np.random.default_rng([classes, users])
    known = [compute_metrics(draw_guesses(20_000, classes, 1, rng)) for _ in range(10)]
    truth = {name: float(np.mean([one[name] for one in known])) for name in known[0]}
    hits = dict.fromkeys(truth, 0)
    for _ in range(200):
        case = draw_guesses(users, classes, 5, rng)
        found = estimate_metrics(case, confidence=0.95, rng=rng, baseline=blind(case))
        for name, value in truth.items():
            hits[name] += found[name].low <= value <= found[name].high
    print(f"\n{classes} classes, {users} users: {hits} of 200 intervals hold the truth")
    for name, count in hits.items():
        assert stats.binom.cdf(count, 200, 0.93) > 1e-3, (name, count)
