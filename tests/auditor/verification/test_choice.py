from __future__ import annotations

import numpy as np
import pytest

from auditor.verification.choice import by_ratio
from auditor.verification.guess import FIRST, NEITHER, SECOND, Stake

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
