"""Fresh draws decide between rules, whatever a split expected of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fedrec_auditor.auditor.worlds.estimators.parts.counting import counted
from fedrec_auditor.auditor.worlds.estimators.parts.decision_rule import DecisionRule, SampleBudget
from fedrec_auditor.auditor.worlds.estimators.parts.selection_split import (
    Contender,
    simplest_best,
)
from fedrec_auditor.auditor.worlds.estimators.parts.statistics import Number
from fedrec_auditor.auditor.worlds.sampler import Sampler

BUDGET = SampleBudget(draws=100_000, delta=0.0, alpha=0.05)


def contender(
    pair: tuple[int, int], expected: float, compute: Callable[[Any], Any] = lambda x: x[:, 0]
) -> Contender:
    rule = DecisionRule(
        statistic=Number("output", compute),
        cuts=np.array([0.5]),
        table=np.array([1, -1], dtype=np.int8),
    )
    return Contender(*pair, expected, rule)


def test_fresh_draws_overrule_what_luck_made_look_better() -> None:
    """World x is 1 with probability 0.5, 0.6 or 0.9: the middle one is furthest from the last."""
    worlds = Sampler.of(lambda p, rng, size: rng.random(size) < p).worlds([0.5, 0.6, 0.9])
    lucky = contender((0, 1), 3.0)
    useless = contender((0, 2), 2.0, lambda x: np.zeros(len(x)))
    good = contender((0, 2), 0.5)
    some = [lucky, useless, good]
    rules = [(each.a, each.b, each.rule) for each in some]
    for seed in range(5):
        streams = np.random.default_rng(seed).spawn(3)
        tables = counted(worlds, rules, dict.fromkeys(range(3), 10_000), streams, ())
        judged = [
            each.judged(table, 10_000, BUDGET) for each, table in zip(some, tables, strict=True)
        ]
        best = simplest_best(judged)
        assert best[:2] == (0, 2)
        assert best.rule is good.rule
        truth = np.log((0.5 + 0.9) / (0.5 + 0.1))
        assert 0.8 * truth < best.expected < truth


def test_equals_go_to_the_simpler() -> None:
    some = [contender((0, 1), expected) for expected in (0.4, 1.0, 1.005, 0.9)]
    assert simplest_best(some) is some[1]
    assert simplest_best([]) is None
    unknown = [contender((0, 1), -np.inf), contender((0, 1), -2.0)]
    assert simplest_best(unknown) is unknown[1]
