from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedrec_auditor.auditor.verification.sampled.choice import best_guess, by_ratio
from fedrec_auditor.auditor.verification.sampled.guess import FIRST, NEITHER, SECOND, Stake
from fedrec_auditor.auditor.verification.sampled.lower_bound import sampled_lower_bound
from fedrec_auditor.auditor.verification.sampled.statistic import Number
from fedrec_auditor.auditor.verification.subject import Subject
from fedrec_auditor.auditor.verification.verification import ONE_REPORT

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
    """Whatever the pilot, parts of the largest odds are guessed on, and no part slips in beside."""
    stake = Stake(draws=18 * SIZE, delta=0.0, alpha=0.05)
    for seed in range(30):
        rng = np.random.default_rng(seed)
        one, other = (
            tuple(
                rng.multinomial(SIZE // 2, np.array(law) / sum(law)).astype(np.float64)
                for law in (first, second)
            )
            for _ in range(2)
        )
        table = by_ratio((one, other), stake).table
        guessed = table != NEITHER
        assert guessed.any()
        assert (table == best)[guessed].all()


def test_a_rule_that_never_guesses_is_none() -> None:
    """Inputs that are told apart by nothing, in pilots so small that chance decides."""

    def coin(value: int, rng: np.random.Generator, size: int) -> Any:
        return (rng.random(size) < 0.5).astype(np.int8)

    for seed in (85, 692):
        found = sampled_lower_bound(
            Subject.of(coin),
            [0, 1],
            scope=ONE_REPORT,
            delta=0.0,
            samples=100,
            confidence=0.95,
            seed=np.random.SeedSequence([77, seed, 100]),
        )
        assert found.epsilon == 0.0
    same = np.zeros(50)
    stake = Stake(draws=100, delta=0.0, alpha=0.05)
    found_rule = best_guess(Number("output", lambda x: x), same, same, stake).guess
    assert found_rule is None or found_rule.table.any()
