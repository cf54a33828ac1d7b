from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedrec_auditor.auditor.worlds.estimators.joint_binomial import JointBinomial
from fedrec_auditor.auditor.worlds.estimators.parts.decision_rule import (
    FIRST,
    NEITHER,
    SECOND,
    SampleBudget,
)
from fedrec_auditor.auditor.worlds.estimators.parts.rule_selection import by_ratio, candidate_rules
from fedrec_auditor.auditor.worlds.estimators.parts.statistics import Number
from fedrec_auditor.auditor.worlds.sampler import Sampler

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
        table = by_ratio((one, other), budget).table
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
