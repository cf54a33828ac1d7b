"""Bounds from the canaries of one training."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import special, stats

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.losses.gaussian import gaussian_epsilon, gaussian_mu
from fedrec_auditor.auditor.worlds.estimators.parts.one_run_guesses import OneRunGuesses
from fedrec_auditor.auditor.worlds.one_run import AUTO, THEOREMS
from fedrec_auditor.auditor.worlds.scores import CANARY_USER, OneRunScores, from_scores

Coins = NDArray[np.bool_]
RUNS = 300


def coins(m: int, rng: np.random.Generator) -> Coins:
    return rng.random(m) < 0.5


def gaussian(mu: float, m: int, seed: int) -> OneRunScores:
    rng = np.random.default_rng(seed)
    included = coins(m, rng)
    return OneRunScores.of(rng.normal(mu * included), included)


def response(included: Coins, rng: np.random.Generator) -> NDArray[np.bool_]:
    return included ^ (rng.random(len(included)) < special.expit(-1.0))


@pytest.mark.calibration
@pytest.mark.parametrize("method", ["auto", "guesses", "trade-off"])
def test_randomized_response_is_overestimated_no_more_often_than_allowed(method: str) -> None:
    """Of few canaries and of many too, in calibration/test_one_run.py."""
    m = 1000
    shown = []
    for rng in np.random.default_rng(m).spawn(RUNS):
        included = coins(m, rng)
        scores = OneRunScores.of(response(included, rng), included)
        shown.append(scores.bound(confidence=0.9, estimator=method).epsilon)
    misses = int(np.count_nonzero(np.array(shown) > 1.0))
    assert stats.binomtest(misses, RUNS, 0.1, "greater").pvalue > 1e-4
    assert np.median(shown) > 0.7


@pytest.mark.parametrize("method", ["auto", "guesses", "trade-off"])
def test_gaussian_scores_show_much_and_never_more_than_there_is(method: str) -> None:
    truth = 4.0
    scores = gaussian(gaussian_mu(truth, 1e-5), 10_000, 7)
    bound = scores.bound(delta=1e-5, estimator=method)
    assert 1.7 < bound.epsilon < truth
    assert bound == scores.bound(delta=1e-5, estimator=method)
    assert bound.samples == 10_000
    assert bound.scope == CANARY_USER


def test_auto_takes_the_trade_off_where_delta_excuses_many() -> None:
    scores = gaussian(6.0, 100_000, 3)
    found = {each: scores.bound(delta=1e-4, estimator=each).epsilon for each in (AUTO, *THEOREMS)}
    assert found["auto"] == found["trade-off"] > found["guesses"] + 0.5


def test_the_sign_of_a_score_is_learned() -> None:
    scores = gaussian(2.0, 2000, 1)
    turned = replace(scores, scores=-scores.scores)
    assert turned.bound().epsilon == pytest.approx(scores.bound().epsilon, abs=0.3)


def test_no_canary_without_noise_is_guessed_wrong() -> None:
    rng = np.random.default_rng(0)
    included = coins(1000, rng)
    bound = OneRunScores.of(included, included).bound(delta=1e-5)
    assert bound.epsilon > 4.5
    assert bound.epsilon <= bound.largest
    alone = OneRunGuesses(canaries=800, guesses=800, right=800)
    known = {"delta": 1e-5, "alpha": 1 - 0.95}
    assert bound.largest in (alone.epsilon(**known), alone.trade_off_epsilon(**known))


@pytest.mark.parametrize("columns", [2, 40, 3000])
def test_a_direction_of_features_is_learned(columns: int) -> None:
    rng = np.random.default_rng(2)
    included = coins(1500, rng)
    rows = rng.normal(3 / np.sqrt(columns) * included[:, None], size=(1500, columns))
    rows *= np.geomspace(1e-3, 1e3, columns)  # so that a plain sum shows the last column only
    bound = OneRunScores.of(rows, included).bound(delta=1e-3)
    assert (0.3 if columns == 3000 else 2.0) < bound.epsilon < gaussian_epsilon(1e-3, 3.0)


def test_features_that_differ_nowhere_or_lie_far_out_are_no_error() -> None:
    rng = np.random.default_rng(4)
    included = coins(400, rng)
    assert OneRunScores.of(np.ones((400, 3)), included).bound().epsilon == 0
    rows = np.stack([np.where(included, np.inf, -np.inf), rng.normal(size=400)], axis=1)
    assert OneRunScores.of(rows, included).bound().epsilon > 3
    assert OneRunScores.of(np.ones(400), included).bound().epsilon == 0


def test_coins_find_their_scores_by_identifier() -> None:
    scores = gaussian(3.0, 500, 5)
    ids = np.array([f"user {i}" for i in range(500)])
    order = np.random.default_rng(0).permutation(500)
    found = OneRunScores.of(scores.scores, scores.included[order], ids, ids[order])
    assert np.array_equal(found.included, scores.included)


def test_scores_of_both_sides_are_one_training() -> None:
    rng = np.random.default_rng(9)
    inside, outside = rng.normal(2, 1, 1020), rng.normal(0, 1, 980)
    bound = from_scores(inside, outside, delta=1e-5, one_run=True)
    assert bound.source.startswith("guesses of who was in one training")
    assert 1.0 < bound.epsilon < gaussian_epsilon(1e-5, 2.0)
    assert bound.samples == 2000


FAIR = np.arange(40) % 2 == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"included": FAIR[:39]}, "a coin for each of 40 canaries"),
        ({"included": FAIR.astype(int)}, "one boolean a canary"),
        ({"included": np.ones(40, bool)}, "fair coins, got 40 of 40 included"),
        ({"scores": np.full(40, np.nan)}, "without NaN"),
        ({"scores": np.ones(19), "included": FAIR[:19]}, "at least 20 scores"),
        ({"ids": range(40)}, "identifiers of scores and of coins or of neither"),
        ({"ids": range(40), "coin_ids": range(39)}, "an identifier for each of 40"),
        ({"ids": range(40), "coin_ids": [0, *range(39)]}, "got np.int64\\(0\\) twice"),
        ({"ids": [0, *range(39)], "coin_ids": range(40)}, "got np.int64\\(0\\) twice"),
        ({"ids": range(40), "coin_ids": range(1, 41)}, "got none of np.int64\\(0\\)"),
    ],
)
def test_coins_without_a_canary_of_their_own_are_refused(
    arguments: dict[str, object], message: str
) -> None:
    given: dict[str, object] = {"scores": np.arange(40.0), "included": FAIR}
    with pytest.raises(InputError, match=message):
        OneRunScores.of(**{**given, **arguments})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s: s.bound(estimator="none"), "among auto, guesses, trade-off, got"),
        (lambda s: s.bound(delta=1.0), "delta in"),
        (lambda s: s.bound(confidence=1.0), "confidence in"),
        (lambda _: OneRunScores.of_sides(3.0, [1.0]), "one shape"),
        (lambda _: OneRunScores.of_sides(np.ones(20), np.ones((20, 2))), "one shape"),
        (lambda _: OneRunScores.of_sides(FAIR, FAIR, range(40)), "of both sides"),
        (lambda _: OneRunScores.of_sides(FAIR, FAIR, range(40), range(40)), "0\\) twice"),
    ],
)
def test_what_gives_no_bound_is_refused(
    call: Callable[[OneRunScores], object], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        call(gaussian(1.0, 40, 0))
