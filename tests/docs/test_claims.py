"""docs/claims.md is what the code gives.

Where this fails: auditor account --all --markdown > docs/claims.md, and read the change.
"""

from __future__ import annotations

from pathlib import Path

from auditor.ledger import entries, judge, tables
from reports.ledger_markdown import render, table_line
from targets.ledger._privrec_tables import PRINTED

PAGE = (Path(__file__).parents[2] / "docs" / "claims.md").read_text(encoding="utf-8")


def test_the_ledger_of_the_page_is_made_by_the_code() -> None:
    made = render(judge(entries()), ())
    assert PAGE[: len(made)] == made


def test_the_tables_of_the_page_are_made_by_the_code() -> None:
    """Every row of both tables, at one of its three deltas: a third of the time of all."""
    _, _, found = PAGE.partition("## Tables 3 and 4")
    lines = [line for line in found.splitlines() if " / " in line and line.startswith("| ")]
    assert len(lines) == len(PRINTED) == 36
    places = [3 * row + row % 3 for row in range(12)]
    made = tables([PRINTED[place] for place in places])
    assert [lines[place] for place in places] == [table_line(row) for row in made]
