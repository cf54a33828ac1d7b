"""docs/claims.md is what the code gives."""

from __future__ import annotations

from pathlib import Path

from auditor.ledger import entries, judge, tables
from reports.ledger_markdown import render

PAGE = Path(__file__).parents[2] / "docs" / "claims.md"


def test_the_page_of_claims_is_made_by_the_code() -> None:
    """Where this fails: auditor account --all --markdown > docs/claims.md, and read the change."""
    made = render(judge(entries()), tables())
    assert PAGE.read_text(encoding="utf-8") == made
