"""Tests of bounds from the canaries of a single training."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import optimize, special, stats
from sklearn.covariance import LedoitWolf

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.losses.divergences import find_gaussian_epsilon, find_gaussian_mu
from fedrec_auditor.auditor.worlds.one_run import (
    AUTO_METHOD,
    THEOREMS,
    OneRunGuesses,
    invert_trade_off,
    make_contrast_weights,
    score_by_discriminants,
)
from fedrec_auditor.auditor.worlds.scores import CANARY_USER_SCOPE, OneRunScores, from_scores


@pytest.mark.parametrize("columns", [2, 30, 59, 60, 61, 400])
def test_scores_equal_those_by_the_inverse_covariance(columns: int) -> None:
    """Scores also agree with fewer rows than columns, for which another matrix is inverted."""
    rng = np.random.default_rng(columns)
    rows = rng.uniform(-1, 1, size=(60, columns)) @ rng.normal(size=(columns, columns))
    labels = rng.random(20) < 0.5
    weights = make_contrast_weights(60, np.arange(20), labels)
    found = score_by_discriminants(rows, weights[:, None])[:, 0]
    x = np.clip(rows, *np.quantile(rows, (0.005, 0.995), axis=0, method="nearest"))
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    shift = x[:20][labels].mean(axis=0) - x[:20][~labels].mean(axis=0)
    slow = x @ np.linalg.inv(LedoitWolf(assume_centered=True).fit(x).covariance_) @ shift
    assert np.corrcoef(found, slow)[0, 1] == pytest.approx(1.0, abs=1e-9)
    assert found @ slow > 0


def test_rows_of_one_label_have_scores_of_0() -> None:
    weights = make_contrast_weights(5, np.arange(3), np.ones(3, dtype=bool))
    assert not weights.any()
    assert not score_by_discriminants(np.eye(5), weights[:, None]).any()


def test_constant_columns_are_ignored() -> None:
    rows = np.stack([np.ones(10), np.arange(10.0), np.full(10, np.inf)], axis=1)
    weights = make_contrast_weights(10, np.array([0, 9]), np.array([False, True]))
    found = score_by_discriminants(rows, weights[:, None])[:, 0]
    assert (np.diff(found)[1:-1] > 0).all()


# Canaries, guesses, right ones; epsilon at delta 1e-5 and p 0.05, by the formula of Steinke, Nasr
# and Jagielski 2023 as jax_privacy computes it (``auditing.py``).
PUBLISHED = (
    (100, 100, 100, 3.4902),
    (1000, 1000, 1000, 5.7823),
    (1000, 100, 95, 2.1652),
    (1000, 1000, 800, 1.2540),
    (10000, 1000, 990, 4.0212),
    (100000, 1000, 990, 3.2150),
)

# True epsilon at delta 1e-5 of Gaussians, canaries; bounds by jax_privacy of deterministic scores
# at the best of several thresholds, with one-sided and two-sided guesses.
IDEAL = (
    (1.0, 10_000, 0.401, 0.473),
    (2.0, 10_000, 0.938, 1.075),
    (4.0, 1_000, 1.312, 1.568),
    (4.0, 10_000, 1.967, 2.171),
    (8.0, 10_000, 3.587, 3.929),
)


def guess(m: int, r: int, v: int, *, both: bool = True) -> OneRunGuesses:
    return OneRunGuesses(n_canaries=m, n_guesses=r, n_right=v, is_two_sided=both)


counts = st.integers(1, 60).flatmap(
    lambda r: st.tuples(st.integers(r, 400), st.just(r), st.integers(0, r))
)
epsilons = st.floats(0.0, 6.0)
deltas = st.sampled_from([0.0, 1e-9, 1e-5, 1e-3, 0.05])
alphas = st.sampled_from([1e-6, 0.01, 0.05, 0.3])


def slow_p_value(m: int, r: int, v: int, epsilon: float, delta: float) -> float:
    """p-value by trying every i, as the theorem is stated."""
    mass = stats.binom.pmf(np.arange(r + 1), r, special.expit(epsilon))
    means = [mass[v - i : v].sum() / i for i in range(1, v + 1)]
    return float(mass[v:].sum() + 2 * m * delta * max(means, default=0.0))


@pytest.mark.parametrize(("m", "r", "v", "epsilon"), PUBLISHED)
def test_bounds_equal_published_ones(m: int, r: int, v: int, epsilon: float) -> None:
    assert guess(m, r, v).bound_epsilon(delta=1e-5, alpha=0.05) == pytest.approx(epsilon, abs=1e-4)


@given(counts, epsilons, deltas)
def test_bisection_finds_the_maximum_of_a_scan(
    counted: tuple[int, int, int], epsilon: float, delta: float
) -> None:
    slow = slow_p_value(*counted, epsilon, delta)
    found = guess(*counted).compute_p_value(epsilon, delta)
    assert found == pytest.approx(slow, rel=1e-7, abs=1e-14)


@pytest.mark.parametrize("right", [50_400, 60_000, 80_000, 99_990, 100_000])
def test_bisection_finds_the_maximum_of_many(right: int) -> None:
    found = guess(100_000, 100_000, right)
    epsilon = found.bound_epsilon(delta=1e-5, alpha=0.05)
    q = special.expit(epsilon)
    i = np.arange(1, right + 1)
    tail = special.betainc(right, 100_000 - right + 1, q)
    below = special.betainc(np.maximum(right - i, 1), 100_000 - right + i + 1, q)
    slow = tail + 2 * (np.where(right > i, below, 1.0) - tail).__truediv__(i).max()
    assert found.compute_p_value(epsilon, 1e-5) == pytest.approx(slow, rel=1e-8)
    assert slow == pytest.approx(0.05, rel=1e-5)


@given(counts, deltas, alphas)
def test_the_bound_is_the_largest_refuted_epsilon(
    counted: tuple[int, int, int], delta: float, alpha: float
) -> None:
    found = guess(*counted)
    epsilon = found.bound_epsilon(delta=delta, alpha=alpha)
    if epsilon > 0:
        assert found.compute_p_value(epsilon, delta) <= alpha
    beyond = epsilon + 1e-6
    _, r, v = counted
    above_the_mode = (r + 1) * special.expit(beyond) < v
    assert not above_the_mode or found.compute_p_value(beyond, delta) > alpha


@given(counts, deltas, deltas, alphas, st.booleans())
def test_the_bound_grows_with_right_guesses_and_falls_with_delta(
    counted: tuple[int, int, int], delta: float, other: float, alpha: float, both: bool
) -> None:
    m, r, v = counted
    assume(v < r and (both or 2 * r <= m))
    for method in (OneRunGuesses.bound_epsilon, OneRunGuesses.bound_epsilon_by_curve):
        less = method(guess(m, r, v, both=both), delta=delta, alpha=alpha)
        more = method(guess(m, r, v + 1, both=both), delta=delta, alpha=alpha)
        assert less <= more + 1e-7
        large = method(guess(m, r, v, both=both), delta=max(delta, other), alpha=alpha)
        assert large <= less + 1e-7


def find_largest_prob(m: int, r: int, v: int, epsilon: float, delta: float, both: bool) -> float:
    """Largest P[right >= v], by linear programming over distributions of the count.

    1 - f is the minimum of two lines; each constraint is stated for both lines.
    """
    j = np.arange(r + 1)
    share = 1.0 if both else 2.0
    rows, limits = [], []
    for c in range(1, r + 1):
        right, wrong = (j >= c) * j / m, (j >= c - 1) * (r - j) / m
        for slope, level in (
            (math.exp(epsilon), delta),
            (math.exp(-epsilon), 1 - math.exp(-epsilon) * (1 - delta)),
        ):
            rows.append(right - slope * wrong)
            limits.append(level / share)
        rows.append(right)
        limits.append(1 / share)
    gains, ones = -(j >= v).astype(float), np.ones((1, r + 1))
    solved = optimize.linprog(gains, np.array(rows), limits, ones, [1.0])
    assert solved.success
    return float(-solved.fun)


@given(
    st.integers(1, 7).flatmap(
        lambda r: st.tuples(st.integers(r, 12), st.just(r), st.integers(1, r))
    ),
    st.floats(0.0, 3.0),
    st.sampled_from([0.0, 1e-3, 0.05, 0.3]),
    st.booleans(),
)
def test_the_recursion_solves_the_linear_programme(
    counted: tuple[int, int, int], epsilon: float, delta: float, both: bool
) -> None:
    found = guess(*counted, both=both)
    most = find_largest_prob(*counted, epsilon, delta, both)
    inverse = invert_trade_off(epsilon, delta)
    assert found.is_within_trade_off(inverse, most * (1 - 1e-6))
    assert most > 0.999 or not found.is_within_trade_off(inverse, most * (1 + 1e-6) + 1e-9)


def test_one_sided_guesses_have_a_larger_bound() -> None:
    alone, paired = guess(10_000, 500, 470, both=False), guess(10_000, 500, 470)
    known = {"delta": 1e-5, "alpha": 0.05}
    assert alone.bound_epsilon_by_curve(**known) > paired.bound_epsilon_by_curve(**known)


@pytest.mark.parametrize(("truth", "m", "one_sided", "two_sided"), IDEAL)
def test_bounds_of_ideal_gaussians_reach_those_of_jax_privacy(
    truth: float, m: int, one_sided: float, two_sided: float
) -> None:
    """Scores are the quantiles (i + 1/2) / n; the best of all numbers of guesses counts.

    Thresholds at every score give up to 0.07 more than the table, whose grid is unknown: counts are
    integers, and more thresholds give a larger maximum by chance.
    """
    n = m // 2
    scores = special.ndtri((np.arange(n) + 0.5) / n)
    both = np.concatenate([scores + find_gaussian_mu(truth, 1e-5), scores])
    right = np.cumsum(np.argsort(-both, kind="stable") < n)
    sizes = np.arange(10, m // 10, 1 if m < 5000 else 3)
    known = {"delta": 1e-5, "alpha": 0.05}
    ones = [guess(m, r, int(right[r - 1])) for r in sizes.tolist()]
    twos = [guess(m, 2 * each.n_guesses, 2 * each.n_right) for each in ones]
    assert one_sided - 1e-3 <= max(each.bound_epsilon(**known) for each in ones) < truth
    assert two_sided - 1e-3 <= max(each.bound_epsilon(**known) for each in twos) < truth


def trade_off(inverse: Callable[[float], float], epsilon: float, delta: float, y: float) -> float:
    x = inverse(y)
    return min(1.0, delta + math.exp(epsilon) * x, 1 - math.exp(-epsilon) * (1 - delta - x))


@given(epsilons, deltas, st.floats(0.0, 1.0))
def test_the_approximate_curve_is_inverted(epsilon: float, delta: float, y: float) -> None:
    found = trade_off(invert_trade_off(epsilon, delta), epsilon, delta, y)
    assert found == pytest.approx(max(y, delta), abs=1e-9)


Coins = NDArray[np.bool_]


def toss_coins(m: int, rng: np.random.Generator) -> Coins:
    return rng.random(m) < 0.5


def draw_gaussian(mu: float, m: int, seed: int) -> OneRunScores:
    rng = np.random.default_rng(seed)
    included = toss_coins(m, rng)
    return OneRunScores.build(rng.normal(mu * included), included)


@pytest.mark.parametrize("method", ["auto", "guesses", "trade-off"])
def test_bounds_of_gaussian_scores_are_tight_and_valid(method: str) -> None:
    truth = 4.0
    scores = draw_gaussian(find_gaussian_mu(truth, 1e-5), 10_000, 7)
    bound = scores.bound(delta=1e-5, estimator=method)
    assert 1.7 < bound.epsilon < truth
    assert bound == scores.bound(delta=1e-5, estimator=method)
    assert bound.samples == 10_000
    assert bound.scope == CANARY_USER_SCOPE


def test_auto_chooses_the_trade_off_for_large_m_times_delta() -> None:
    scores = draw_gaussian(6.0, 100_000, 3)
    methods = (AUTO_METHOD, *THEOREMS)
    found = {each: scores.bound(delta=1e-4, estimator=each).epsilon for each in methods}
    assert found["auto"] == found["trade-off"] > found["guesses"] + 0.5


def test_the_sign_of_a_score_is_learned() -> None:
    scores = draw_gaussian(2.0, 2000, 1)
    turned = replace(scores, scores=-scores.scores)
    assert turned.bound().epsilon == pytest.approx(scores.bound().epsilon, abs=0.3)


def test_noiseless_canaries_have_the_largest_bound() -> None:
    rng = np.random.default_rng(0)
    included = toss_coins(1000, rng)
    bound = OneRunScores.build(included, included).bound(delta=1e-5)
    assert bound.epsilon > 4.5
    assert bound.epsilon <= bound.largest
    alone = OneRunGuesses(n_canaries=800, n_guesses=800, n_right=800)
    known = {"delta": 1e-5, "alpha": 1 - 0.95}
    assert bound.largest in (alone.bound_epsilon(**known), alone.bound_epsilon_by_curve(**known))


@pytest.mark.parametrize("columns", [2, 40, 3000])
def test_a_direction_of_features_is_learned(columns: int) -> None:
    rng = np.random.default_rng(2)
    included = toss_coins(1500, rng)
    rows = rng.normal(3 / np.sqrt(columns) * included[:, None], size=(1500, columns))
    rows *= np.geomspace(1e-3, 1e3, columns)  # so that a plain sum has only the last column
    bound = OneRunScores.build(rows, included).bound(delta=1e-3)
    assert (0.3 if columns == 3000 else 2.0) < bound.epsilon < find_gaussian_epsilon(1e-3, 3.0)


def test_constant_and_infinite_features_are_accepted() -> None:
    rng = np.random.default_rng(4)
    included = toss_coins(400, rng)
    assert OneRunScores.build(np.ones((400, 3)), included).bound().epsilon == 0
    rows = np.stack([np.where(included, np.inf, -np.inf), rng.normal(size=400)], axis=1)
    assert OneRunScores.build(rows, included).bound().epsilon > 3
    assert OneRunScores.build(np.ones(400), included).bound().epsilon == 0


def test_scores_in_and_out_are_those_of_one_training() -> None:
    rng = np.random.default_rng(9)
    inside, outside = rng.normal(2, 1, 1020), rng.normal(0, 1, 980)
    bound = from_scores(inside, outside, delta=1e-5, one_run=True)
    assert bound.source.startswith("guesses of which canaries one training included")
    assert 1.0 < bound.epsilon < find_gaussian_epsilon(1e-5, 2.0)
    assert bound.samples == 2000


FAIR = np.arange(40) % 2 == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"included": FAIR[:39]}, "one boolean for each of 40 canaries"),
        ({"included": FAIR.astype(int)}, "True for each included canary"),
        ({"included": np.ones(40, bool)}, "fair coins, got 40 of 40 included"),
        ({"scores": np.full(40, np.nan)}, "without NaN"),
        ({"scores": np.ones(19), "included": FAIR[:19]}, "at least 20 entries"),
        ({"ids": range(39)}, "an identifier for each of 40"),
        ({"ids": [0, *range(39)]}, "got 0 twice"),
    ],
)
def test_wrong_coins_and_identifiers_are_refused(
    arguments: dict[str, object], message: str
) -> None:
    given: dict[str, object] = {"scores": np.arange(40.0), "included": FAIR}
    with pytest.raises(InputError, match=message):
        OneRunScores.build(**{**given, **arguments})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s: s.bound(estimator="none"), "among auto, guesses, trade-off, got"),
        (lambda s: s.bound(delta=1.0), "delta in"),
        (lambda s: s.bound(confidence=1.0), "confidence in"),
        (lambda _: OneRunScores.from_in_and_out(3.0, [1.0]), "one shape"),
        (lambda _: OneRunScores.from_in_and_out(np.ones(20), np.ones((20, 2))), "one shape"),
        (lambda _: OneRunScores.from_in_and_out(FAIR, FAIR, range(40)), "both in_ids and out_ids"),
        (lambda _: OneRunScores.from_in_and_out(FAIR, FAIR, range(40), range(40)), "got 0 twice"),
    ],
)
def test_bad_arguments_of_bounds_are_refused(
    call: Callable[[OneRunScores], object], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        call(draw_gaussian(1.0, 40, 0))
