"""When a number of a paper counts as right."""

from __future__ import annotations

import math

import pytest

from fedrec_auditor.targets.catalogue.entry import Computed


@pytest.mark.parametrize(
    ("claimed", "right", "below", "holds"),
    [
        (2.0, 2.0 + 1e-12, False, True),
        (2.0, 2.001, False, False),
        (math.inf, math.inf, False, True),
        (4572.0, math.inf, False, False),
        (math.inf, 5.0, False, False),
        (1.0, 0.5, True, True),
        (1.0, 1.0, True, False),
        (math.inf, math.inf, True, False),
    ],
)
def test_numbers_agree_or_do_not(claimed: float, right: float, below: bool, holds: bool) -> None:
    number = Computed(what="w", claimed=claimed, right=right, how="h", below=below)
    assert number.holds is holds


def test_the_tolerance_is_relative_above_one() -> None:
    assert Computed(what="w", claimed=101.0, right=100.0, how="h", tolerance=0.01).holds
    assert not Computed(what="w", claimed=102.0, right=100.0, how="h", tolerance=0.01).holds
