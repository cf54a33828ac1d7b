"""The catalogue as a page of Markdown: one table, then a section an entry."""

from __future__ import annotations

from collections.abc import Sequence

from fedrec_auditor.reports import markdown
from fedrec_auditor.reports.catalogue import CatalogueRow, EpsilonTables
from fedrec_auditor.reports.catalogue_document import catalogue_document


def render(rows: Sequence[CatalogueRow], tables: Sequence[EpsilonTables]) -> str:
    """The whole page."""
    return markdown.write(catalogue_document(rows, tables), places=True)
