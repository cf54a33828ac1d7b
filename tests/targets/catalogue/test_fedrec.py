"""Headings 17 to 20: verdicts, and the numbers by a second way."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate, stats

from fedrec_auditor.accountants.verdict import Arithmetic, Verdict
from fedrec_auditor.auditor.catalogue import judge
from fedrec_auditor.targets.catalogue import fedrec
from fedrec_auditor.targets.catalogue.entry import Computed

C, N = Verdict.CONSISTENT, Verdict.INCOMPARABLE
WRONG, RIGHT = Arithmetic.WRONG, Arithmetic.RIGHT
JUDGED = {
    "17": (C, None),
    "17b": (N, None),
    "17c": (N, None),
    "17d": (C, None),
    "17e": (C, None),
    "18": (None, RIGHT),
    "19": (None, WRONG),
    "19b": (None, WRONG),
    "20": (N, None),
    "20b": (Verdict.NO_CLAIM, None),
    "20c": (N, None),
    "20d": (N, None),
    "20e": (N, None),
}
EPSILONS = {  # claimed, and exactly so much
    "17": (60.0, 60.0),
    "17b": (60.0, 7_124_530.0),  # ML-100K, all components
    "17c": (60.0, 30 * 7_124_530.0),
    "17d": (30.0, 30.0),
    "17e": (60.0, 60.0),
    "20b": (math.inf, math.inf),
    "20c": (10.0, math.inf),
    "20d": (10.0, math.inf),
    "20e": (10.0, math.inf),
}


def of(number: str) -> tuple[Computed, ...]:
    (entry,) = [entry for entry in fedrec.ENTRIES if entry.number == number]
    assert entry.computed is not None
    return tuple(entry.computed())


def test_every_claim_is_judged_as_derived() -> None:
    rows = {row.number: row for row in judge(fedrec.ENTRIES)}
    assert {number: (row.verdict, row.arithmetic) for number, row in rows.items()} == JUDGED
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
    for row in judge([entry for entry in fedrec.ENTRIES if entry.number in ("20c", "20d", "20e")]):
        assert row.finding is not None
        assert "a law and a budget that the paper does not print" in row.finding.reason
        assert "our reading" in row.reason.lower()
        assert row.demonstration is None


def test_two_epochs_tell_less_than_one() -> None:
    """The largest log-ratio of the sent density on a grid, with the first noise integrated out."""
    (number,) = of("18")
    scale, x = 1 / 30, np.linspace(-2.5, 2.5, 2001)
    densities = []
    for end in (0.5, -0.5):
        z = np.linspace(0, 5, 2_000_001)
        up = float(integrate.simpson(stats.laplace.pdf(z, end, scale), x=z))
        sent = up * stats.laplace.pdf(x, 0.5, scale) + (1 - up) * stats.laplace.pdf(x, -0.5, scale)
        densities.append(sent)
    ratio = float(np.abs(np.log(densities[0] / densities[1])).max())
    assert number.right == pytest.approx(ratio, rel=1e-4)
    assert number.right < 30
    assert number.word is Arithmetic.RIGHT


def test_equation_11_and_section_5_7_agree_on_the_user_component_alone() -> None:
    assert [number.right for number in of("19")] == [30, 40, 50, 60]
    assert [number.claimed for number in of("19")] == [30, 60, 40, 50]
    high, low = of("19b")
    assert high.word is Arithmetic.RIGHT
    assert low.right == pytest.approx(1 / 40)
    assert 1 / low.claimed == pytest.approx(30, rel=0.02)
