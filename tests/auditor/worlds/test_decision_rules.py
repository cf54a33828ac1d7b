"""Rules, and the choice of their cuts."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrec_auditor.auditor.worlds.decision_rules import (
    FIRST,
    NEITHER,
    SECOND,
    SampleBudget,
    _middles,
    by_ratio,
    candidate_rules,
)
from fedrec_auditor.auditor.worlds.estimators.lower_bound_estimators import JointBinomial
from fedrec_auditor.auditor.worlds.sampler import Sampler
from fedrec_auditor.auditor.worlds.statistics import Number, cuts_between, histogram

CUTS = st.lists(st.integers(-4, 4).map(lambda x: x / 2), unique=True, min_size=1, max_size=9)
VALUES = st.lists(
    st.one_of(st.integers(-3, 3), st.sampled_from([-math.inf, 0.5, 2.5, math.inf])), min_size=1
)


def parts(values: np.ndarray, cuts: list[float]) -> list[list[float]]:
    ends = [-math.inf, *cuts, math.inf]
    found = [
        [x for x in values.tolist() if low <= x < high] for low, high in itertools.pairwise(ends)
    ]
    found[-1] += [x for x in values.tolist() if x == math.inf]
    return found


@given(VALUES, CUTS)
def test_every_value_is_counted_in_its_part(values: list[float], cuts: list[float]) -> None:
    cuts.sort()
    floats = np.array(values, dtype=np.float64)
    whole = floats[np.isfinite(floats)].astype(np.int8)
    for array in (floats, whole, whole > 0, np.abs(whole).astype(np.uint64)):
        expected = [len(part) for part in parts(array, cuts)]
        assert histogram(array, np.array(cuts)).tolist() == expected


@given(VALUES, VALUES, CUTS)
def test_the_middle_of_a_part_is_the_mean_in_it(
    first: list[float], second: list[float], cuts: list[float]
) -> None:
    cuts.sort()
    one, other = np.clip(first, -9, 9), np.clip(second, -9, 9)
    expected = [np.mean(part) if part else math.nan for part in parts(np.append(one, other), cuts)]
    assert np.allclose(_middles(one, other, np.array(cuts)), expected, equal_nan=True)


def test_an_atom_in_a_grid_is_cut_out_though_hundreds_of_other_values_came_oftener() -> None:
    """In a grid of 1/1024 under Laplace noise, each input itself at a rate of .0003."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        inputs = np.repeat([0.0, 1.0], 100_000)
        noise = np.round((0.5 * inputs + rng.laplace(size=200_000)) * 1024) / 1024
        values = np.where(rng.random(200_000) < 3e-4, inputs, noise)
        counts = np.unique(values, return_counts=True)[1]
        assert (counts > np.count_nonzero(values == 1.0)).sum() > 128
        assert {1.0, float(np.nextafter(1.0, np.inf))} <= set(cuts_between(values).tolist())


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
def test_the_level_used_is_the_level_judged(
    first: list[float], second: list[float], best: list[int]
) -> None:
    """Whatever the split, parts of the largest odds are guessed on, and no part slips in beside."""
    budget = SampleBudget(draws=18 * SIZE, delta=0.0, alpha=0.05)
    for seed in range(30):
        rng = np.random.default_rng(seed)
        one, other = (
            tuple(
                rng.multinomial(SIZE // 2, np.array(law) / sum(law)).astype(np.float64)
                for law in (first, second)
            )
            for _ in range(2)
        )
        table = by_ratio(np.array([one, other]), budget).table
        guessed = table != NEITHER
        assert guessed.any()
        assert (table == best)[guessed].all()


def test_a_rule_that_never_guesses_is_none() -> None:
    """Inputs that are told apart by nothing, in selection splits so small that chance decides."""

    def coin(value: int, rng: np.random.Generator, size: int) -> Any:
        return (rng.random(size) < 0.5).astype(np.int8)

    for seed in (85, 692):
        found = JointBinomial().bound(
            Sampler.of(coin).worlds([0, 1]),
            delta=0.0,
            confidence=0.95,
            samples=100,
            rng=np.random.default_rng([77, seed, 100]),
        )
        assert found.epsilon == 0.0
    same = np.zeros(50)
    budget = SampleBudget(draws=100, delta=0.0, alpha=0.05)
    rules = candidate_rules(Number("output", lambda x: x), same, same, budget)
    assert all(rule.table.any() for _, rule in rules)


def test_draws_of_which_one_half_lies_beyond_all_others_are_judged() -> None:
    """Noise that runs out: the later half is one value, below every cut, in both worlds."""
    rng, budget = np.random.default_rng(0), SampleBudget(draws=4000, delta=0.0, alpha=0.05)
    first, second = (np.append(rng.normal(size=1000), np.full(1000, -99.0)) for _ in range(2))
    rules = candidate_rules(Number("output", lambda x: x), first, second + 1.0, budget)
    assert all(rule.table.any() for _, rule in rules)


@pytest.mark.parametrize(("grid", "chance"), [(1 / 256, 1e-3), (0.01, 1e-3)])
def test_an_atom_among_thousands_of_values_is_found(grid: float, chance: float) -> None:
    """Its rule looks no better on the split than the luckiest of thin parts; fresh draws tell."""

    def report(value: int, rng: np.random.Generator, size: int) -> Any:
        noisy = np.rint((0.5 * value + rng.laplace(size=size)) / grid) * grid
        return np.where(rng.random(size) < chance, float(value), noisy)

    beside = grid / 2 * np.exp(-0.5) * (1 - chance)
    truth = np.log((beside + chance) / (beside * np.exp(-0.5)))
    found = JointBinomial().bound(
        Sampler.of(report).worlds([0, 1]),
        delta=0.0,
        confidence=0.95,
        samples=1_000_000,
        rng=np.random.default_rng(0),
    )
    assert 0.5 < found.epsilon < truth  # no rule without the atom can show more than 0.5
