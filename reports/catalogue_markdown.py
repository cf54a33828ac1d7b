"""The catalogue as a page of Markdown: one table, then a section an entry (`docs/claims.md`)."""

from __future__ import annotations

from collections.abc import Sequence

from fedrec_auditor.reports import templating
from fedrec_auditor.reports.catalogue import CatalogueRow, TableRow
from fedrec_auditor.reports.catalogue_terminal import counts
from fedrec_auditor.reports.words import number, short

_MOST = 6  # numbers listed of one entry


def render(rows: Sequence[CatalogueRow], tables: Sequence[TableRow]) -> str:
    """The whole page."""
    return templating.render(
        "claims.md.j2",
        escape=_cell,
        rows=rows,
        tables=[table_line(row) for row in tables],
        counts=counts(rows),
        most=_MOST,
        rest={row.number: _rest(row) for row in rows},
    )


def table_line(row: TableRow) -> str:
    """One line of PrivRec's tables."""
    return (
        f"| {row.table} | {row.clients} / {row.n_users} | {number(row.delta)} | "
        f"{row.printed:.4f} | {row.counted:.4f} | {short(row.lower)} to {short(row.upper)} |"
    )


def _rest(row: CatalogueRow) -> str:
    """How many numbers are not listed, and whether they agree."""
    poor = len(row.poor_figures)
    agreeing = len(row.figures) - (poor or _MOST)
    parts = [f"{poor - _MOST} more are wrong"] if poor > _MOST else []
    if agreeing > 0:
        parts.append(f"{agreeing} {'more agree' if agreeing > 1 else 'more agrees'}")
    text = ", ".join(parts)
    return f" {text[:1].upper()}{text[1:]}." if text else ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
