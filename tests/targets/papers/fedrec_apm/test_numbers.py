"""Headings 17 to 20: verdicts, and the numbers by a second way."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fedrec_auditor.accountants.verdict import Arithmetic
from fedrec_auditor.auditor.judging.catalogue import judge
from fedrec_auditor.targets.declarations.entry import Computed
from fedrec_auditor.targets.declarations.paper import Paper

PAPER = Paper.of("fedrec_auditor.targets.papers.fedrec_apm")
WRONG, RIGHT = Arithmetic.WRONG, Arithmetic.RIGHT
EPSILONS = {  # claimed, and exactly so much
    "17": (60.0, 60.0),
    "17b": (60.0, 7_124_530.0),  # ML-100K, all components
    "17c": (60.0, 12 * 7_124_530.0),  # rounds
    "17d": (30.0, 30.0),
    "17e": (60.0, 60.0),
    "20b": (math.inf, math.inf),
    "20c": (10.0, math.inf),
    "20d": (10.0, math.inf),
    "20e": (10.0, math.inf),
}


def of(number: str) -> tuple[Computed, ...]:
    return PAPER.computed(PAPER.entry(number))


def test_epsilons_are_those_of_the_derivation() -> None:
    rows = {row.number: row for row in judge([PAPER.entry(number) for number in EPSILONS])}
    for number, (claimed, exact) in EPSILONS.items():
        row = rows[number]
        assert row.claimed_epsilon == pytest.approx(claimed)
        assert row.exact_lower_epsilon == pytest.approx(exact)
        assert row.proved_epsilon == pytest.approx(exact)


def test_an_upload_spends_millions() -> None:
    """By hand: 64 factors, 44 user features; 60 for items, 30 for the user component."""
    user = 30 * (64 * 44 + 64 * 64 + 64 * 64 + 64)
    hidden = 40 * (64 * 128 + 64) + 50 * (64 + 1)
    assert EPSILONS["17b"][1] == 60 * 64 * 1682 + user + hidden


def test_our_reading_of_an_unprinted_law_refutes_nobody() -> None:
    for row in judge([PAPER.entry(number) for number in ("20c", "20d", "20e")]):
        assert "a law and a budget that the paper does not print" in row.finding.reason
        assert "our reading" in row.reason.lower()


@given(
    st.floats(-0.5, 0.5),
    st.floats(-0.5, 0.5),
    st.floats(0, 1),
    st.floats(0, 1),
)
@settings(max_examples=30)
def test_two_epochs_cost_no_more_than_one(
    one: float, other: float, stay: float, leave: float
) -> None:
    """The densities of what is sent, the first noise and clipping integrated out.

    The second epoch moves what the first left a share of the way to an end that the data choose.
    """
    (number,) = of("18")
    scale, x, z = 1 / 30, np.linspace(-1, 1, 81), np.linspace(-1.5, 1.5, 1501)
    densities = []
    for start, end, share in ((one, 0.5, stay), (other, -0.5, leave)):
        left = np.clip(z, -0.5, 0.5)
        weights = stats.laplace.pdf(z, start, scale)
        moved = np.clip(left + share * (end - left), -0.5, 0.5)
        sent = (stats.laplace.pdf(x[:, None], moved, scale) * weights).sum(axis=1)
        densities.append(sent / weights.sum())
    ratio = float(np.abs(np.log(densities[0] / densities[1])).max())
    assert ratio <= number.right * (1 + 1e-9)
    if stay == leave == 1.0:
        assert ratio == pytest.approx(number.right)
    assert number.right == pytest.approx(30.0)
    assert number.word is RIGHT


def test_the_second_epoch_reaches_the_whole_range() -> None:
    """Trained on the user's data again: entry 18 is 30, and no less."""
    test_two_epochs_cost_no_more_than_one.hypothesis.inner_test(0.5, -0.5, 1.0, 1.0)


def test_slips_of_the_text() -> None:
    (numerator,) = of("17f")
    assert (numerator.claimed, numerator.right) == (math.inf, pytest.approx(2 * 0.5))
    (summed,) = of("18b")
    assert summed.right == 472  # half of 943, rounded up
    assert [number.right for number in of("19c")] == [3, 100_000, 6040, 3706]
    ages = np.arange(10, 80)
    groups = (ages < 45).astype(int) + (ages > 35) + ((ages >= 35) & (ages <= 45))
    assert groups.max() == 3
    assert (groups[(ages > 35) & (ages < 45)] == 3).all()


def test_who_protects_better_hangs_on_a_budget_that_is_not_printed() -> None:
    """By hand, of ML-100K's 127,041 entries, as in ``test_an_upload_spends_millions``."""
    entries = 64 * 1682 + 64 * 44 + 2 * 64 * 64 + 64 + 64 * 128 + 64 + 64 + 1
    least, most = of("20f")
    assert least.right == pytest.approx(7_124_530 / (40 * entries))
    assert most.right == pytest.approx(7_124_530 / (60 * entries))
    assert (least.word, most.word) == (Arithmetic.UNSTATED, RIGHT)  # a reading, nobody's claim
    assert [(depth.claimed, depth.right) for depth in of("20g")] == [(1, 0), (0, 0)]


def test_equation_11_and_section_5_7_agree_on_the_user_component_alone() -> None:
    assert [number.right for number in of("19")] == [30, 40, 50, 60]
    assert [number.claimed for number in of("19")] == [30, 60, 40, 50]
    high, low = of("19b")
    assert high.word is Arithmetic.RIGHT
    assert low.right == pytest.approx(1 / 40)
    assert 1 / low.claimed == pytest.approx(30, rel=0.02)
