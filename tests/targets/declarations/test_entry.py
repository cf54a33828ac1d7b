"""Conditions under which a number of a paper counts as right."""

from __future__ import annotations

import math

import pytest

from fedrec_auditor.targets.declarations.entry import ComputedNumber


@pytest.mark.parametrize(
    ("claimed", "right", "word"),
    [
        (2.0, 2.0 + 1e-12, "RIGHT"),
        (2.0, 2.001, "WRONG"),
        (2.001, 2.0, "WRONG"),
        (math.inf, math.inf, "RIGHT"),
        (4572.0, math.inf, "WRONG"),
        (math.inf, 5.0, "WRONG"),
    ],
)
def test_numbers_agree_within_the_tolerance(claimed: float, right: float, word: str) -> None:
    assert ComputedNumber(what="w", claimed=claimed, right=right, how="h").word == word


@pytest.mark.parametrize(
    ("claimed", "right", "word"),
    [(1.0, 0.5, "RIGHT"), (1.0, 1.0, "WRONG"), (math.inf, math.inf, "WRONG")],
)
def test_claims_of_below_need_a_smaller_number(claimed: float, right: float, word: str) -> None:
    assert ComputedNumber(what="w", claimed=claimed, right=right, how="h", below=True).word == word


@pytest.mark.parametrize(
    ("claimed", "right", "word"),
    [
        (2.001, 2.0, "LOOSE"),
        (2.0 + 1e-12, 2.0, "RIGHT"),
        (2.0, 2.001, "WRONG"),
        (math.inf, 5.0, "LOOSE"),
        (4572.0, math.inf, "WRONG"),
        (math.inf, math.inf, "RIGHT"),
    ],
)
def test_upper_bounds_that_are_too_large_are_loose(claimed: float, right: float, word: str) -> None:
    assert ComputedNumber(what="w", claimed=claimed, right=right, how="h", upper=True).word == word


def test_the_tolerance_is_relative_above_one() -> None:
    for claimed, word in ((101.0, "RIGHT"), (102.0, "WRONG")):
        number = ComputedNumber(what="w", claimed=claimed, right=100.0, how="h", tolerance=0.01)
        assert number.word == word
