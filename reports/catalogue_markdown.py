"""The catalogue as a page of Markdown: one table, then a section an entry."""

from __future__ import annotations

from collections.abc import Sequence

from fedrec_auditor.reports import templating
from fedrec_auditor.reports.catalogue import CatalogueRow, EpsilonTables, TableRow
from fedrec_auditor.reports.catalogue_terminal import counts
from fedrec_auditor.reports.words import number, short_least, short_most


def render(rows: Sequence[CatalogueRow], tables: Sequence[EpsilonTables]) -> str:
    """The whole page."""
    return templating.render(
        "claims.md.j2",
        escape=_cell,
        rows=rows,
        papers=list({row.paper.title: row.paper for row in rows}.values()),
        tables=tables,
        table_line=table_line,
        counts=counts(rows),
    )


def table_line(row: TableRow) -> str:
    """One line of a table of epsilons."""
    holds = f"{short_least(row.lower)} to {short_most(row.upper)}"
    return (
        f"| {row.table} | {row.clients} / {row.n_users} | {number(row.delta)} | "
        f"{row.printed:.4f} | {row.counted:.4f} | {holds} |"
    )


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
