"""One system in the terminal: all that a reader asks after its line in the summary."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedrec_auditor.reports import document_terminal
from fedrec_auditor.reports.glance import Glance
from fedrec_auditor.reports.paragraph import print_line
from fedrec_auditor.reports.rows import Contents
from fedrec_auditor.reports.system_document import system_document
from fedrec_auditor.reports.terminal import SEVERITIES

if TYPE_CHECKING:
    from rich.console import Console


def render_system(record: Contents, glance: Glance, console: Console) -> None:
    """Print the verdict and what to do; claims, attacks, utility and what did not run below."""
    title = f"{glance.section.target}: {glance.assessment.words}"
    print_line(console, title, style=SEVERITIES[glance.severity] or "bold")
    document_terminal.write(system_document(record, glance), console)
