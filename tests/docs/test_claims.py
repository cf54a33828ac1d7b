"""docs/claims.md is what the code gives.

Where this fails: auditor claims --all --markdown > docs/claims.md, and read the change.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fedrec_auditor.accountants.verdict import Verdict
from fedrec_auditor.auditor.judging.catalogue import entries, judge, tables
from fedrec_auditor.reports.catalogue import CatalogueRow
from fedrec_auditor.reports.catalogue_markdown import render, table_line
from fedrec_auditor.targets.papers.privrec import numbers

SHORT = {
    Verdict.CONSISTENT: "1 2 8 15 17 26b 28",
    Verdict.VIOLATED: "2b 6 7 12 22 22b 23 24 24b",
    Verdict.INCOMPARABLE: "4 8b 16 17b 20 20c",
    None: "26",  # a misprint: no claim is judged by it
}
"""What the summary says of entries, by their verdict."""
PAGE = (Path(__file__).parents[2] / "docs" / "claims.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def rows() -> tuple[CatalogueRow, ...]:
    """By two workers, as one judged the page."""
    return judge(entries(), jobs=2)


def test_the_catalogue_of_the_page_is_made_by_the_code(rows: tuple[CatalogueRow, ...]) -> None:
    made = render(rows, ())
    assert PAGE[: len(made)] == made


def test_distinct_statements_are_counted_from_json_as_on_the_page(
    rows: tuple[CatalogueRow, ...],
) -> None:
    """As docs/command-line.md says: by ``repeats``, or ``number`` where that is empty."""
    data = [row.model_dump(mode="json") for row in rows]
    assert any(row["repeats"] for row in data)
    for basis in ("printed", "derived"):
        (told,) = re.findall(rf"\d+ {basis} statements[^.]*", PAGE.replace("\n", " "))
        for field, word in (("verdict", "VIOLATED"), ("arithmetic", "WRONG")):
            mine = (row for row in data if (row["basis"], row[field]) == (basis, word))
            assert f" {len({row['repeats'] or row['number'] for row in mine})} {word}" in told


def test_the_summary_says_what_the_entries_do(rows: tuple[CatalogueRow, ...]) -> None:
    _, _, short = PAGE.partition("\n## In short\n")
    named = re.findall(r"\]\(#(\w+)\)", short.partition("\n## ")[0])
    said = {number: verdict for verdict, numbers in SHORT.items() for number in numbers.split()}
    found = {row.number: row.verdict for row in rows}
    assert set(named) == set(said)
    assert {number: found[number] for number in named} == said


def test_every_heading_with_a_violation_is_demonstrated_and_none_of_ours_is_unsound(
    rows: tuple[CatalogueRow, ...],
) -> None:
    assert Verdict.UNSOUND not in {row.verdict for row in rows}
    shown = {row.heading for row in rows if row.demonstration is not None}
    assert {row.heading for row in rows if row.verdict is Verdict.VIOLATED} <= shown


def test_no_entry_of_a_paper_asks_beyond_its_threat_model(rows: tuple[CatalogueRow, ...]) -> None:
    """What a paper defends against is judged; whom it trusts is kept to the protocol."""
    beyond = {row.number for row in rows if row.finding and row.finding.outside_model}
    assert beyond == {"20c", "20d", "20e"}  # laws and budgets that are not printed


def test_the_tables_of_the_page_are_made_by_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every row of both tables, at one of its three deltas: a third of the time of all."""
    _, _, found = PAGE.partition("## Tables 3 and 4")
    lines = [line for line in found.splitlines() if " / " in line and line.startswith("| ")]
    printed = tuple(numbers.printed_epsilons())
    assert len(lines) == len(printed) == 36
    places = [3 * row + row % 3 for row in range(12)]
    monkeypatch.setattr(numbers, "printed_epsilons", lambda: [printed[place] for place in places])
    (made,) = tables()
    assert f"## {made.title}, entry by entry\n\n{made.note}\n\n| Table |" in PAGE
    assert [lines[place] for place in places] == [table_line(row) for row in made.rows]
