"""Tests of counts of guesses, their confidence limits, and the bounds on epsilon."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fedrec_auditor.auditor.worlds.estimators.base import MIN_SAMPLES
from fedrec_auditor.auditor.worlds.estimators.lower_bound_estimators import JointBinomial
from fedrec_auditor.auditor.worlds.guesses import (
    GuessCounts,
    approximate_epsilon,
    bound_by_event,
    bound_epsilon_by_guesses,
    clopper_pearson_lower,
    clopper_pearson_upper,
    limit_revealed_draws,
    plan_coin_tosses,
)
from fedrec_auditor.auditor.worlds.selection import SECOND_RULE_ALPHA_SHARE, plan_selection_size


@given(st.integers(1, 500), st.data(), st.floats(0.001, 0.4))
def test_limits_agree_with_scipy(trials: int, data: st.DataObject, alpha: float) -> None:
    successes = data.draw(st.integers(0, trials))
    interval = stats.binomtest(successes, trials).proportion_ci(1 - 2 * alpha, method="exact")
    assert clopper_pearson_lower(successes, trials, alpha) == pytest.approx(interval.low, abs=1e-9)
    assert clopper_pearson_upper(successes, trials, alpha) == pytest.approx(interval.high, abs=1e-9)


@given(st.integers(0, 200), st.integers(0, 200), st.floats(0.0, 0.5))
def test_event_epsilon_is_the_plain_formula(hits: int, misses: int, delta: float) -> None:
    low = float(clopper_pearson_lower(hits, 200, 0.025))
    high = float(clopper_pearson_upper(misses, 200, 0.025))
    expected = max(0.0, math.log((low - delta) / high)) if low > delta else 0.0
    found = float(bound_by_event(hits, 200, misses, 200, delta=delta, alpha=0.05))
    assert found == pytest.approx(expected)


ALPHA = 0.05


def miss_prob(epsilon: float, delta: float, share: float, draws: int, *, both: bool) -> float:
    """Exact probability of a bound above ``epsilon``, for the worst (epsilon, delta) distribution.

    A ``share`` of the outputs that delta does not reveal is guessed, rightly with probability e^eps
    / (1 + e^eps); the rule abstains on the rest. Revealed outputs of both inputs are guessed
    rightly, or, if the rule guesses one input only, those of that input.
    """
    right = share * (1 - delta) / (1 + math.exp(-epsilon)) + (delta if both else delta / 2)
    wrong = share * (1 - delta) / (1 + math.exp(epsilon))
    revealed, alpha = limit_revealed_draws(draws, both=both, delta=delta, alpha=ALPHA)
    rights, wrongs = np.meshgrid(np.arange(draws + 1), np.arange(draws + 1), indexing="ij")
    possible = rights + wrongs <= draws
    rights, wrongs = rights[possible], wrongs[possible]
    counts = np.stack([rights, wrongs, draws - rights - wrongs], axis=1)
    rest = max(0.0, 1 - right - wrong)
    probability = stats.multinomial(draws, [right, wrong, rest]).pmf(counts)
    bounds = bound_epsilon_by_guesses(rights, wrongs, revealed, alpha)
    return float(probability[bounds > epsilon + 1e-9].sum())


@settings(max_examples=60)
@given(
    epsilon=st.floats(0.0, 4.0),
    delta=st.sampled_from([0.0, 0.001, 0.01, 0.1, 0.3]),
    share=st.floats(0.05, 1.0),
    draws=st.integers(5, 120),
    both=st.booleans(),
)
def test_the_bound_exceeds_the_truth_at_most_at_the_stated_rate(
    epsilon: float, delta: float, share: float, draws: int, both: bool
) -> None:
    if not both:
        share /= 2
    assert miss_prob(epsilon, delta, share, draws, both=both) <= ALPHA + 1e-9


def _miss_prob_by_coin(epsilon: float, delta: float, coin: float, draws: int) -> float:
    """Exact probability as ``miss_prob``, by enumeration, if a coin chooses the first
    world.

    The mechanism is randomized response, which reveals its input with probability delta. The counts
    are right and wrong guesses of each world.
    """
    hit, p = ((1 - delta) / (1 + math.exp(-epsilon)) + delta, (1 - delta) / (1 + math.exp(epsilon)))
    law = stats.multinomial(
        draws, [coin * hit, (1 - coin) * p, (1 - coin) * hit, coin * p]
    )  # first right and wrong, second right and wrong
    missed = 0.0
    for a, b, c in itertools.product(range(draws + 1), repeat=3):
        if (d := draws - a - b - c) >= 0:
            counts = GuessCounts(
                n_draws=draws,
                first_world_counts=(a, b),
                second_world_counts=(c, d),
                is_two_sided=True,
                first_world_prob=coin,
            )
            above = counts.bound_epsilon(delta=delta, alpha=ALPHA) > epsilon + 1e-9
            missed += float(law.pmf([a, b, c, d])) if above else 0.0
    return missed


@pytest.mark.parametrize("coin", [0.05, 0.3, 0.8])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 0.0), (2.0, 0.0), (1.0, 0.2)])
def test_the_bound_holds_for_any_coin(coin: float, epsilon: float, delta: float) -> None:
    missed = _miss_prob_by_coin(epsilon, delta, coin, 11)
    assert missed <= ALPHA + 1e-9
    assert missed > 0.01 or delta or epsilon > 1  # eleven draws rarely give such a bound


@given(
    first=st.tuples(st.integers(0, 300), st.integers(0, 300)),
    second=st.tuples(st.integers(0, 300), st.integers(0, 300)),
    delta=st.sampled_from([0.0, 0.01]),
)
def test_a_nearly_fair_coin_has_the_bound_of_a_fair_one(
    first: tuple[int, int], second: tuple[int, int], delta: float
) -> None:
    fair = GuessCounts(
        n_draws=1_200, first_world_counts=first, second_world_counts=second, is_two_sided=True
    )
    near = replace(fair, first_world_prob=0.5 - 1e-12).bound_epsilon(delta=delta, alpha=ALPHA)
    assert near == pytest.approx(fair.bound_epsilon(delta=delta, alpha=ALPHA), abs=1e-6)


def test_sums_over_millions_of_guesses_are_accurate() -> None:
    right, wrong = 10**6, 10**5
    counts = {"first_world_counts": (right, wrong), "second_world_counts": (right, wrong)}
    fair = GuessCounts(n_draws=8 * 10**6, **counts, is_two_sided=True)
    near = replace(fair, first_world_prob=0.5 - 1e-12)
    for delta in (0.0, 1e-5):
        exact = fair.bound_epsilon(delta=delta, alpha=1e-6)
        assert near.bound_epsilon(delta=delta, alpha=1e-6) == pytest.approx(exact, abs=1e-6)


@given(st.integers(1, 10**6), st.integers(1, 10**6))
def test_a_coin_leaves_enough_of_either_side(n: int, m: int) -> None:
    draws, share = plan_coin_tosses(n, m)
    assert share == pytest.approx(n / (n + m))
    assert stats.binom.sf(n, draws, share) < 3e-3  # the Poisson tail is longer for few draws
    assert stats.binom.sf(m, draws, 1 - share) < 3e-3
    if min(n, m) > 1_000:
        assert stats.binom.sf(n, draws, share) + stats.binom.sf(m, draws, 1 - share) < 1e-4
        assert draws > 0.85 * (n + m)


def test_the_miss_rate_is_near_the_stated_one() -> None:
    assert miss_prob(1.0, 0.0, 1.0, 120, both=True) > 0.03
    assert miss_prob(1.0, 0.1, 1.0, 120, both=True) > 0.002


def test_bounds_at_the_ends() -> None:
    assert bound_epsilon_by_guesses(0, 0, 0, ALPHA) == 0.0
    assert bound_epsilon_by_guesses(0, 50, 0, ALPHA) == 0.0
    assert bound_epsilon_by_guesses(50, 50, 0, ALPHA) == 0.0
    # n right, none wrong: s^n = alpha at the limit.
    assert bound_epsilon_by_guesses(100, 0, 0, ALPHA) == pytest.approx(
        -math.log(ALPHA ** (-1 / 100) - 1)
    )
    assert bound_epsilon_by_guesses(30, 0, 30, ALPHA) == 0.0


def test_both_directions_are_counted_together() -> None:
    one = GuessCounts(n_draws=200, first_world_counts=(60, 10))
    two = GuessCounts(
        n_draws=200, first_world_counts=(60, 10), second_world_counts=(60, 10), is_two_sided=True
    )
    asked = {"delta": 0.0, "alpha": ALPHA}
    assert two.bound_epsilon(**asked) > one.bound_epsilon(**asked)
    assert two.bound_epsilon(**asked) == bound_epsilon_by_guesses(120, 20, 0, ALPHA)
    assert two.bound_epsilon(delta=0.01, alpha=ALPHA) < two.bound_epsilon(**asked)


def test_delta_reveals_twice_as_much_to_two_sided_guesses() -> None:
    assert limit_revealed_draws(100, both=True, delta=0.0, alpha=ALPHA) == (0, ALPHA)
    one, alpha = limit_revealed_draws(100_000, both=False, delta=0.01, alpha=ALPHA)
    two, _ = limit_revealed_draws(100_000, both=True, delta=0.01, alpha=ALPHA)
    assert 500 < one < 600 < 1000 < two < 1100
    assert stats.binom.sf(one, 100_000, 0.005) <= ALPHA - alpha


@given(st.integers(10, 10**6), st.floats(0.0, 0.4), st.floats(0.001, 0.2))
def test_the_approximate_bound_is_near_the_bound(right: int, odds: float, alpha: float) -> None:
    wrong = int(right * odds)
    exact = float(bound_epsilon_by_guesses(right, wrong, 0, alpha))
    z = float(stats.norm.isf(alpha))
    near = float(approximate_epsilon(np.array([float(right)]), np.array([float(wrong)]), 0, z)[0])
    assert max(near, 0.0) == pytest.approx(exact, abs=0.03)


def test_no_counts_exceed_the_largest_bound() -> None:
    """Enumerates all counts of right and wrong guesses in a small sample."""
    for delta in (0.0, 0.05):
        most = JointBinomial().find_max_bound(30, delta=delta, confidence=1 - ALPHA)
        draws = 2 * (30 - plan_selection_size(30))
        error = (1.0 - SECOND_RULE_ALPHA_SHARE) * ALPHA
        failures, alpha = limit_revealed_draws(draws, both=True, delta=delta, alpha=error)
        bounds = [
            float(bound_epsilon_by_guesses(right, wrong, failures, alpha))
            for right in range(draws + 1)
            for wrong in range(draws + 1 - right)
        ]
        assert max(bounds) == pytest.approx(most, rel=1e-12)


@pytest.mark.parametrize("delta", [0.0, 1e-3])
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 3.0, 6.0])
def test_the_minimum_sample_size_is_minimal(epsilon: float, delta: float) -> None:
    estimator, asked = JointBinomial(), {"delta": delta, "confidence": 1 - ALPHA}
    few = estimator.find_min_samples(epsilon, **asked)
    assert estimator.find_max_bound(few, **asked) > epsilon
    for fewer in {few - 1, *range(MIN_SAMPLES, min(few, 2_000))} - {MIN_SAMPLES - 1}:
        assert estimator.find_max_bound(fewer, **asked) <= epsilon


def test_no_sample_size_refutes_a_huge_claim() -> None:
    assert JointBinomial().find_min_samples(50.0, delta=0.0, confidence=0.95) is None
