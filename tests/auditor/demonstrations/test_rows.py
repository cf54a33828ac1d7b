"""F-GERAI, F-GERAI-NL and F-DPMF: a held item's row never comes back as it was broadcast."""

from __future__ import annotations

import math

import numpy as np
import pytest

from accountants.scope import Unit
from auditor.demonstrations.f_dpmf_rows import FDpmfRows
from auditor.demonstrations.f_gerai_nl_rows import FGeraiNlRows
from auditor.demonstrations.f_gerai_rows import FGeraiRows

RUNS = 4_000
KEPT = 7 / 11  # 4 negatives among the 11 items that are not held


@pytest.mark.parametrize("member", [FGeraiRows(), FGeraiNlRows(), FDpmfRows()])
def test_a_row_is_kept_unless_the_item_is_held_or_drawn(
    member: FGeraiRows | FGeraiNlRows | FDpmfRows,
) -> None:
    """The share is that of the negatives within 5.5 standard deviations."""
    contest = member.violation()
    assert contest.claim.epsilon == 1.0
    assert contest.claim.scope.unit is Unit.INTERACTION
    held, free = (contest.sample(w, RUNS, np.random.default_rng(w)) for w in (0, 1))
    assert not held.any()
    assert abs(free.mean() - KEPT) < 5.5 * math.sqrt(KEPT * (1 - KEPT) / RUNS)


@pytest.mark.parametrize("member", [FGeraiRows(), FDpmfRows()])
def test_noise_on_all_rows_keeps_none(member: FGeraiRows | FDpmfRows) -> None:
    contest = member.control()
    assert contest.claim.epsilon == 1.0
    assert contest.claim.scope.unit is Unit.COORDINATE
    for world in (0, 1):
        assert not contest.sample(world, 500, np.random.default_rng(world)).any()
