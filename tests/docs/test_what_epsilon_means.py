"""docs/what-epsilon-means.md: its figures and words are the code's."""

from __future__ import annotations

import math
import re

import pytest

from fedrec_auditor.accountants.statements import Horizon, Unit, Vantage, guess_probability
from fedrec_auditor.accountants.verdict import VACUOUS_GUESS
from tests.docs.blocks import ROOT

PAGE = ROOT / "docs" / "what-epsilon-means.md"
TEXT = PAGE.read_text(encoding="utf-8")
ROWS = re.findall(r"^\| ([\d.]+) \| ([\d.]+)% of the time \| ([\d.]+)% \|$", TEXT, re.MULTILINE)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_the_table_of_guesses(row: tuple[str, str, str]) -> None:
    epsilon = float(row[0])
    right = math.exp(epsilon) / (1 + math.exp(epsilon))
    assert guess_probability(epsilon) == pytest.approx(right, rel=1e-12)
    places = len(row[1].partition(".")[2])
    assert f"{100 * right:.{places}f}" == row[1]
    odds = math.exp(epsilon) * 0.01 / 0.99
    assert f"{100 * odds / (1 + odds):.2f}" == row[2]


def test_the_table_has_the_epsilons_that_the_page_speaks_of() -> None:
    assert [float(row[0]) for row in ROWS] == [0, 0.1, 1, 4, 10]


def test_vacuous_begins_where_the_page_says() -> None:
    (said,) = re.findall(r"From epsilon ([\d.]+) on", TEXT)
    assert f"{math.log(VACUOUS_GUESS / (1 - VACUOUS_GUESS)):.2f}" == said


def test_every_unit_vantage_and_horizon_is_named() -> None:
    rows = dict(re.findall(r"^\| (unit|vantage|horizon) \| (.*) \|$", TEXT, re.MULTILINE))
    for name, kind in (("unit", Unit), ("vantage", Vantage), ("horizon", Horizon)):
        assert all(each.value in rows[name] for each in kind)
