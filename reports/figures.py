"""The figures of a record, one list for the page and for the export."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fedrec_auditor.reports import plots
from fedrec_auditor.reports.anchor import anchors
from fedrec_auditor.reports.glance import Glance, glances
from fedrec_auditor.reports.rows import Contents


@dataclass(frozen=True, slots=True)
class Drawing:
    """One drawing: ``title`` says in words what it shows, ``svg`` is a whole SVG element.

    ``name`` stays the same from audit to audit, is no other figure's and fits a file's name.
    Colours are the CSS variables of templates/glance.css; there are no identifiers.
    """

    name: str
    title: str
    svg: str


def figures(record: Contents) -> Iterator[Drawing]:
    """Every figure of a record, system by system, the worst first."""
    places = anchors(record)
    for glance in glances(record):
        yield from system_figures(glance, places[glance.section.target].page)


def system_figures(glance: Glance, page: str) -> Iterator[Drawing]:
    """The figures of one system, whose place in the report is ``page``."""
    section = glance.section
    if section.findings:
        yield Drawing(
            f"{page}-ladder",
            f"Epsilon of each claim of {section.target} on a logarithmic axis: claimed, proved at "
            "most, shown at least",
            plots.ladder(section.findings),
        )
