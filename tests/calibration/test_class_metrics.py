"""How often intervals of classification figures hold the truth, users and draws sampled."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from sklearn import metrics as reference

from fedrec_auditor.auditor.games.class_metrics import MACRO, NOT_ASKED, Guesses, estimates

pytestmark = pytest.mark.calibration


def figure_of(name: str, case: Guesses) -> float:
    """The figure of one draw, of all users, by scikit-learn."""
    asked = case.guessed[0] != NOT_ASKED
    truth, guess, scores = case.truth[asked], case.guessed[0][asked], case.scores[0][asked]
    if name == MACRO:
        return float(reference.f1_score(truth, guess, average="macro"))
    if name == "AUC":
        return float(reference.roc_auc_score(truth, scores[:, 1]))
    return float(reference.balanced_accuracy_score(truth, guess))


@pytest.mark.parametrize("spread", [0.0, 0.3])
@pytest.mark.parametrize("draws", [2, 5, 10])
def test_intervals_cover_users_and_draws(draws: int, spread: float) -> None:
    """Guesses share a shift within a draw, users a difficulty over all draws.

    The truth is the mean over both. Of 150 intervals at 95% each, no fewer hold than 91% would
    explain (at level 1e-3).
    """
    rng = np.random.default_rng(7)
    names = (MACRO, "balanced accuracy", "AUC")

    def play(users: int, r: int) -> Guesses:
        truth = (rng.random(users) < 0.3).astype(np.int64)
        sign = 2 * truth - 1
        hard = rng.normal(size=users)
        shift = rng.normal(0, spread, size=(r, 1)) * sign
        score = 0.7 * sign + hard + shift + 0.5 * rng.normal(size=(r, users))
        guessed = (score > 0).astype(np.int64)
        guessed[rng.random((r, users)) < 0.3] = NOT_ASKED
        return Guesses(
            truth=truth, guessed=guessed, classes=2, scores=np.stack([-score, score], axis=2)
        )

    pieces = [play(4_000, 1) for _ in range(400)]
    truth = {name: float(np.mean([figure_of(name, one) for one in pieces])) for name in names}
    hits = dict.fromkeys(names, 0)
    for _ in range(150):
        found = estimates(play(300, draws), confidence=0.95, rng=rng)
        for name in names:
            hits[name] += found[name].low <= truth[name] <= found[name].high
    for name in names:
        assert stats.binom.cdf(hits[name], 150, 0.91) > 1e-3, (name, hits[name])
