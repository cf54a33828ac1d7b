"""Trees are chosen where they tell worlds apart better than a weighted sum."""

from __future__ import annotations

import numpy as np
import pytest

from fedrec_auditor.auditor.worlds.pilot_rule import best_rule


@pytest.mark.parametrize(
    ("shift", "scale", "chosen"),
    [(0.0, 1.0, range(9)), (0.5, 1.0, range(5)), (0.0, 2.5, range(25, 31))],
    ids=["alike", "shifted", "wider"],
)
def test_trees_are_chosen_by_more_than_chance(shift: float, scale: float, chosen: range) -> None:
    """Of thirty pairs of worlds; without a margin trees win half of those that are alike."""
    trees = 0
    for rng in np.random.default_rng(0).spawn(30):
        first, second = rng.normal(shift, scale, (120, 4)), rng.normal(size=(120, 4))
        trees += "trees" in best_rule(first, second)[1]
    assert trees in chosen
