"""Tests of decision rules and of learned statistics, with known distributions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from fedrec_auditor.auditor.worlds.decision_rules import (
    FIRST,
    NEITHER,
    SECOND,
    RuleTestPlan,
    _compute_means,
    find_guesses_by_ratio,
    propose_rules,
)
from fedrec_auditor.auditor.worlds.estimators.lower_bound_estimators import JointBinomial
from fedrec_auditor.auditor.worlds.pilot_rules import (
    CoordinateScorer,
    choose_run_scorer,
    fit_logistic_rule,
    learn_run_scorer,
)
from fedrec_auditor.auditor.worlds.sampler import Sampler
from fedrec_auditor.auditor.worlds.statistics import (
    SCORE_ROUNDING_STEP,
    EntryNamer,
    ScalarScore,
    count_in_intervals,
    learn_scores,
    make_cuts,
    round_scaled,
)

CUTS = st.lists(st.integers(-4, 4).map(lambda x: x / 2), unique=True, min_size=1, max_size=9)
VALUES = st.lists(
    st.one_of(st.integers(-3, 3), st.sampled_from([-math.inf, 0.5, 2.5, math.inf])), min_size=1
)


def split(values: np.ndarray, cuts: list[float]) -> list[list[float]]:
    ends = [-math.inf, *cuts, math.inf]
    found = [
        [x for x in values.tolist() if low <= x < high] for low, high in itertools.pairwise(ends)
    ]
    found[-1] += [x for x in values.tolist() if x == math.inf]
    return found


@given(VALUES, CUTS)
def test_every_value_is_counted_in_its_interval(values: list[float], cuts: list[float]) -> None:
    cuts.sort()
    floats = np.array(values, dtype=np.float64)
    whole = floats[np.isfinite(floats)].astype(np.int8)
    for array in (floats, whole, whole > 0, np.abs(whole).astype(np.uint64)):
        expected = [len(part) for part in split(array, cuts)]
        assert count_in_intervals(array, np.array(cuts)).tolist() == expected


@given(VALUES, VALUES, CUTS)
def test_the_middle_of_an_interval_is_its_mean(
    first: list[float], second: list[float], cuts: list[float]
) -> None:
    cuts.sort()
    one, other = np.clip(first, -9, 9), np.clip(second, -9, 9)
    expected = [np.mean(part) if part else math.nan for part in split(np.append(one, other), cuts)]
    assert np.allclose(_compute_means(one, other, np.array(cuts)), expected, equal_nan=True)


def test_a_rare_atom_in_a_grid_has_its_own_interval() -> None:
    """Outputs are a grid of 1/1024 with Laplace noise, and the input itself at a rate of 0.0003."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        inputs = np.repeat([0.0, 1.0], 100_000)
        noise = np.round((0.5 * inputs + rng.laplace(size=200_000)) * 1024) / 1024
        values = np.where(rng.random(200_000) < 3e-4, inputs, noise)
        counts = np.unique(values, return_counts=True)[1]
        assert (counts > np.count_nonzero(values == 1.0)).sum() > 128
        assert {1.0, float(np.nextafter(1.0, np.inf))} <= set(make_cuts(values).tolist())


SIZE = 40_000


@pytest.mark.parametrize(
    ("first", "second", "best"),
    [
        ([0.4975, 0.0050, 0.4975], [0.0038, 0.3774, 0.6188], [FIRST, NEITHER, NEITHER]),
        (
            [0.9, 0.025, 0.025, 0.025, 0.025],
            [0.025, 0.9, 0.025, 0.025, 0.025],
            [FIRST, SECOND, NEITHER, NEITHER, NEITHER],
        ),
        (
            [0.731, 0.170, 0.0625, 0.023, 0.0135],
            [0.0135, 0.023, 0.0625, 0.170, 0.731],
            [FIRST, NEITHER, NEITHER, NEITHER, SECOND],
        ),
    ],
)
def test_rules_guess_on_the_most_informative_outputs(
    first: list[float], second: list[float], best: list[int]
) -> None:
    """For every split, the rule guesses on the outputs with the largest odds, and on no others."""
    plan = RuleTestPlan(n_draws=18 * SIZE, delta=0.0, alpha=0.05)
    for seed in range(30):
        rng = np.random.default_rng(seed)
        one, other = (
            tuple(
                rng.multinomial(SIZE // 2, np.array(law) / sum(law)).astype(np.float64)
                for law in (first, second)
            )
            for _ in range(2)
        )
        table = find_guesses_by_ratio(np.array([one, other]), plan).guess_table
        guessed = table != NEITHER
        assert guessed.any()
        assert (table == best)[guessed].all()


def test_a_rule_that_never_guesses_is_not_used() -> None:
    """Inputs have the same distribution, and selection splits are so small that chance decides."""

    def coin(value: int, rng: np.random.Generator, size: int) -> Any:
        return (rng.random(size) < 0.5).astype(np.int8)

    for seed in (85, 692):
        found = JointBinomial().measure_bound(
            Sampler.wrap(coin).make_worlds([0, 1]),
            delta=0.0,
            confidence=0.95,
            samples=100,
            rng=np.random.default_rng([77, seed, 100]),
        )
        assert found.epsilon == 0.0
    same = np.zeros(50)
    plan = RuleTestPlan(n_draws=100, delta=0.0, alpha=0.05)
    rules = propose_rules(ScalarScore("output", lambda x: x), same, same, plan)
    assert all(rule.guesses.any() for _, rule in rules)


def test_draws_with_one_constant_half_have_rules() -> None:
    """Noise stops halfway: the later half is one value, below every cut, in both worlds."""
    rng, plan = np.random.default_rng(0), RuleTestPlan(n_draws=4000, delta=0.0, alpha=0.05)
    first, second = (np.append(rng.normal(size=1000), np.full(1000, -99.0)) for _ in range(2))
    rules = propose_rules(ScalarScore("output", lambda x: x), first, second + 1.0, plan)
    assert all(rule.guesses.any() for _, rule in rules)


@pytest.mark.parametrize(("grid", "chance"), [(1 / 256, 1e-3), (0.01, 1e-3)])
def test_an_atom_among_thousands_of_values_is_found(grid: float, chance: float) -> None:
    """On the split its rule equals rules that are good by chance; held-out draws decide."""

    def report(value: int, rng: np.random.Generator, size: int) -> Any:
        noisy = np.rint((0.5 * value + rng.laplace(size=size)) / grid) * grid
        return np.where(rng.random(size) < chance, float(value), noisy)

    beside = grid / 2 * np.exp(-0.5) * (1 - chance)
    truth = np.log((beside + chance) / (beside * np.exp(-0.5)))
    found = JointBinomial().measure_bound(
        Sampler.wrap(report).make_worlds([0, 1]),
        delta=0.0,
        confidence=0.95,
        samples=1_000_000,
        rng=np.random.default_rng(0),
    )
    assert 0.5 < found.epsilon < truth  # no rule without the atom has a bound above 0.5


@given(st.integers(0, 2**32 - 1), st.integers(1, 200))
def test_sums_in_another_order_are_rounded_to_one_number(seed: int, width: int) -> None:
    """The exception is one number in a million, which lies between two steps."""
    rng = np.random.default_rng(seed)
    x, weights = rng.integers(0, 2, (50, width)) / 3.0, rng.normal(size=width)
    order = rng.permutation(width)
    size = np.abs(weights).sum()
    one, other = (round_scaled(x @ weights, size), round_scaled(x[:, order] @ weights[order], size))
    assert (one == other).mean() > 0.9
    np.testing.assert_allclose(one, x @ weights, rtol=0, atol=SCORE_ROUNDING_STEP * 2 * size)


def test_numbers_without_a_step_are_unchanged() -> None:
    values = np.array([np.inf, -np.inf, np.nan, 0.0])
    np.testing.assert_array_equal(round_scaled(values), values)
    assert not np.signbit(round_scaled(-1e-12))
    assert round_scaled(3.0, np.array([0.0, 1.0, 1e300])).tolist() == [3.0, 3.0, 0.0]
    single = np.array([0.0, 1.5, -0.1], np.float32)  # 1e-250 is 0 there, and 0 / 0 is NaN
    np.testing.assert_allclose(round_scaled(single, np.abs(single)), single, rtol=1e-9)


def test_numbers_that_differ_by_rounding_become_equal() -> None:
    values = np.array([0.1, 1.1 - 1.0, 1e100 * 0.1, 1e100 * (1.1 - 1.0), -np.inf, 0.0, 1e-300])
    one = round_scaled(values, np.abs(values))
    assert one[0] == one[1]
    assert one[2] == one[3]
    np.testing.assert_allclose(one[:-1], values[:-1], rtol=1e-9)
    spread = np.linspace(0.0, 1.0, 100_000)
    assert len(np.unique(round_scaled(spread, spread))) == len(spread)


def test_half_and_single_precision_numbers_are_unchanged() -> None:
    """Their precision is coarser than the step, and single precision lacks such small sizes."""
    for kind in (np.float16, np.float32):
        values = np.array([0.0, 0.1, -3.5, 1000.0], dtype=kind)
        np.testing.assert_array_equal(round_scaled(values, np.abs(values)).astype(kind), values)


def measure_gaps(first: Any, second: Any, fresh: Any) -> dict[str, float]:
    """Difference of the means of two worlds on held-out draws, in standard deviations, by
    statistic.
    """
    found = {}
    for score in learn_scores(
        first.astype(float), second.astype(float), EntryNamer(first.shape[1:])
    ):
        one, other = (np.asarray(score.evaluate(each), dtype=float) for each in fresh)
        found[score.name] = float((one.mean() - other.mean()) / max(one.std(), 1e-9))
    return found


def test_the_difference_of_means_finds_a_direction() -> None:
    rng = np.random.default_rng(1)
    direction = rng.normal(size=200)
    direction *= 2.0 / np.linalg.norm(direction)
    drawn = [x * direction + rng.normal(size=(5_000, 200)) for x in (1, 0)]
    fresh = [x * direction + rng.normal(size=(5_000, 200)) for x in (1, 0)]
    gaps = measure_gaps(*drawn, fresh)
    projection = gaps["projection on the difference of means"]
    # With 5,000 draws the cosine of the estimated direction is 1/sqrt(1 + 200 (2/5000) / 4).
    assert projection > 0.95 * 2.0 / np.sqrt(1.0 + 0.02)
    assert projection > 1.1 * max(gap for name, gap in gaps.items() if "signed sum" in name)


def test_items_are_counted_at_any_position() -> None:
    """Outputs are four of ten items in random order, usually with item 5 or item 4, by world."""
    rng = np.random.default_rng(2)

    def lists(item: int) -> Any:
        order = np.argsort(rng.random((4_000, 10)) - (np.arange(10) == item) * 0.8, axis=1)
        return rng.permuted(order[:, :4], axis=1)

    gaps = measure_gaps(lists(5), lists(4), [lists(5), lists(4)])
    (name,) = (name for name in gaps if "values" in name)
    assert "(4, 5 above all)" in name or "(5, 4 above all)" in name
    assert gaps[name] == max(gaps.values())
    error = np.sqrt(2 / 4_000)
    assert stats.norm.sf(gaps[name] / error) < 1e-9


@pytest.mark.parametrize(
    ("shift", "scale", "chosen"),
    [(0.0, 1.0, range(9)), (0.5, 1.0, range(5)), (0.0, 2.5, range(25, 31))],
    ids=["alike", "shifted", "wider"],
)
def test_trees_are_chosen_by_more_than_chance(shift: float, scale: float, chosen: range) -> None:
    """Without a margin, trees would win in half of thirty pairs of equal worlds."""
    trees = 0
    for rng in np.random.default_rng(0).spawn(30):
        first, second = rng.normal(shift, scale, (120, 4)), rng.normal(size=(120, 4))
        trees += "trees" in learn_run_scorer(first, second)[1]
    assert trees in chosen


Matrix = NDArray[np.float64]
Noise = Callable[[np.random.Generator, tuple[int, int]], Matrix]
# Difference of the messages of two worlds, in deviations of the noise.
SHIFT = 0.0234 * np.random.default_rng(5).choice([-1.0, 1.0], 100)
PLACES = np.arange(100)
INFORMATIVE: dict[str, Noise] = {
    "uniform": lambda rng, shape: (rng.random(shape) - 0.5) * 12**0.5,
    "a grid that moves": lambda rng, shape: np.round(rng.standard_normal(shape), 2),
    "a grid in single precision": lambda rng, shape: np.float32(
        np.round(rng.standard_normal(shape), 3)
    ),
    "clipped": lambda rng, shape: np.clip(rng.standard_normal(shape), -1.5, 1.5),
    "on some coordinates": lambda rng, shape: rng.standard_normal(shape) * (PLACES % 4 > 0),
    "left out by chance": lambda rng, shape: (
        rng.standard_normal(shape) * (rng.random(shape) < 0.95)
    ),
}
HONEST: dict[str, Noise] = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "Laplace": lambda rng, shape: rng.laplace(0, 2**-0.5, shape),
}


def compute_votes(noise: Noise, size: int = 800, grid: float = 0.0) -> tuple[Matrix, Matrix]:
    """Votes on held-out messages of two worlds, learned from 2,000 other messages per world."""

    def sent(world: int, count: int, seed: int) -> Matrix:
        drawn = noise(np.random.default_rng(seed), (count, len(SHIFT)))
        message = drawn + (SHIFT if world == 0 else 0.0) + 3.0 * np.sin(PLACES)
        return np.asarray(np.rint(message / grid) * grid if grid else message, float)

    voter = CoordinateScorer.fit(sent(0, 2_000, 1), sent(1, 2_000, 1))
    return voter(sent(0, size, 2)), voter(sent(1, size, 3))


@pytest.mark.parametrize("name", INFORMATIVE)
def test_informative_noise_is_found_by_votes(name: str) -> None:
    """More than 100 messages of one world have votes that are very rare in the other."""
    first, second = compute_votes(INFORMATIVE[name])
    apart = [
        max(
            np.count_nonzero(first[:, k] > np.quantile(second[:, k], 0.995)),
            np.count_nonzero(second[:, k] < np.quantile(first[:, k], 0.005)),
        )
        for k in range(first.shape[1])
    ]
    assert max(apart) > 100, apart


BOUNDED: dict[str, Noise] = {
    "triangular": lambda rng, shape: rng.triangular(-(6**0.5), 0, 6**0.5, shape),
    "cosine": lambda rng, shape: np.arcsin(rng.uniform(-1, 1, shape)) / 0.684,
    "beta": lambda rng, shape: (rng.beta(2.5, 2.5, shape) - 0.5) * 24**0.5,
}


@pytest.mark.parametrize("name", BOUNDED)
def test_bounded_noise_with_a_falling_density_has_votes(name: str) -> None:
    """One in 100 messages is outside the other world's range, and has a vote for its world."""
    noise, shift = BOUNDED[name], np.zeros(20)
    shift[[3, 7]] = 0.3, -0.3

    def sent(world: int, count: int, seed: int) -> Matrix:
        return noise(np.random.default_rng(seed), (count, 20)) + shift * world

    voter = CoordinateScorer.fit(sent(0, 2_000, 1), sent(1, 2_000, 1))
    first, second = (voter(sent(world, 4_000, 2 + world))[:, 0] for world in (0, 1))
    alone = np.count_nonzero(first > second.max()) + np.count_nonzero(second < first.min())
    assert alone > 20, alone


@pytest.mark.parametrize("name", HONEST)
def test_uninformative_noise_has_few_votes_by_values(name: str) -> None:
    """Rounding to a grid in both worlds is post-processing, and gives no votes either."""
    for grid in (0.0, 0.01):
        voted = np.concatenate(compute_votes(HONEST[name], grid=grid))[:, 1] != 0
        assert voted.mean() < 0.1, "a value comes again and again in one world by chance"


def test_votes_on_normal_noise_equal_the_likelihood_ratio() -> None:
    """The log-ratio is (x - middle) @ (difference of the means), for noise of deviation 1."""
    rng = np.random.default_rng(0)
    mean = np.linspace(-0.2, 0.2, 40)
    noise = rng.standard_normal((4_000, 40))
    voter = CoordinateScorer.fit(noise + mean, noise)
    x = rng.standard_normal((500, 40))
    exact = (x - mean / 2) @ mean
    assert np.corrcoef(voter(x)[:, 0], exact)[0, 1] > 0.9


def test_a_vote_is_used_only_if_better_than_the_fitted_rule() -> None:
    plan = RuleTestPlan(n_draws=4_000, delta=1e-5, alpha=0.05)
    rng = np.random.default_rng(0)
    cases = (2.0, 0.0, False), (0.0, 0.3, True), (2.0, 1.0, True), (0.0, 0.05, True)
    for shift, shown, voted in cases:
        first, second = rng.normal(shift, 1.0, (400, 4)), rng.normal(0.0, 1.0, (400, 4))
        first[:, -1], second[:, -1] = rng.random(400) < shown, 0.0
        rule, how = choose_run_scorer(fit_logistic_rule, first, second, 2, plan)
        assert bool(how) == voted
        assert rule(first).shape == (400,)
