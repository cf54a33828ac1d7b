"""``auditor show``: a run in the terminal again, or one of its systems in full."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(
    run: Annotated[Path, typer.Argument(help="A run directory, or a report.json.")],
    target: Annotated[
        str | None, typer.Argument(help="A system of it, in full. The summary if left out.")
    ] = None,
) -> None:
    """Show an audit again: the summary, or all that a person asks of one system."""
    from rich.console import Console

    from fedrec_auditor.reports import terminal
    from fedrec_auditor.reports.glance import glances
    from fedrec_auditor.reports.paragraph import print_line
    from fedrec_auditor.reports.record import Record
    from fedrec_auditor.reports.terminal import render_system

    record = Record.read(run)
    console = Console()
    if target is None:
        terminal.render(record, console)
        terminal.render_pointer(record, run, console)
        return
    name = record[target].target
    (glance,) = (each for each in glances(record) if each.section.target == name)
    render_system(record, glance, console)
    page = (run if run.is_dir() else run.parent) / "report.html"
    if page.is_file():
        console.print()
        print_line(console, f"With pictures: {page}#{glance.anchor}")
