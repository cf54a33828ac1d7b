"""docs/reproductions.json, as `auditor reproduce all` writes it, is of what is declared today."""

from __future__ import annotations

import json
import re

import pytest

from fedrec_auditor.auditor.plan.families import papers
from fedrec_auditor.auditor.reproductions.reproduction import reproduction, reproduction_names
from fedrec_auditor.reports.reproductions import Page, Pages, lines
from tests.docs.alike import alike
from tests.docs.blocks import ROOT

STORED = (ROOT / "docs" / "reproductions.json").read_text(encoding="utf-8")
WHOLE = Pages.model_validate_json(STORED)
TEXT = (ROOT / "docs" / "reproductions.md").read_text(encoding="utf-8")


def test_every_paper_is_there_a_figure_a_line() -> None:
    assert lines(WHOLE) == STORED
    assert tuple(page.name for page in WHOLE.pages) == reproduction_names()


@pytest.mark.parametrize("page", WHOLE.pages, ids=lambda page: page.name)
def test_printed_figures_are_those_that_are_declared(page: Page) -> None:
    paper = papers()[page.name]
    declared = [v for table in paper.printed.table for row in table.rows.values() for v in row]
    if paper.printed.epsilons:
        declared += [each.printed for each in paper.epsilons()]
    known = {f"{each:.4g}" for value in declared for each in (value, value**2)}  # of an RMSE
    assert {f"{row.printed:.4g}" for row in page.rows if row.printed is not None} <= known
    assert page.paper == paper.heading.title


@pytest.mark.parametrize("page", WHOLE.pages, ids=lambda page: page.name)
def test_remarks_follow_from_the_figures(page: Page) -> None:
    """Within what the digits that are kept allow."""
    made = reproduction(page.name).remarks(page.rows)
    assert len(made) == len(page.remarks)
    assert all(map(alike, page.remarks, made))


def test_what_is_measured_nowhere_is_said() -> None:
    """In the file of each paper, and figure by figure on the page."""
    said = TEXT.partition("Not every printed figure")[2].partition("lists them")[0]
    said = re.sub(r"(\d) to (\d)", lambda ends: listed(*map(int, ends.groups())), said)
    for page in WHOLE.pages:
        assert page.left_out == reproduction(page.name).absent
        for absent in page.left_out:
            lost = re.sub(r"\(.*?\)", "", absent.partition("axes of")[0].split(": ")[1])
            for number in re.findall(r"(?:Figures?|Tables?|,|and) (\d\w?)\b", lost):
                assert re.search(rf"\b{number}\b", said), (page.name, number)


def listed(first: int, last: int) -> str:
    return ", ".join(map(str, range(first, last + 1)))


def test_the_page_quotes_figures_that_were_measured() -> None:
    found = {
        f"{value:.3f}"
        for page in json.loads(STORED)["pages"]
        for row in page["rows"]
        for value in (row["value"], row.get("printed") or 0.0, *row["beside"].values())
    }
    found |= {
        number
        for page in WHOLE.pages
        for text in page.remarks
        for number in re.findall(r"\d\.\d{3}", text)
    }
    quoted = re.findall(r"\b\d\.\d{3}\b", TEXT)
    assert len(quoted) > 10
    assert set(quoted) <= found
