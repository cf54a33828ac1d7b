"""``auditor report``: render the reports again from the record."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedrec_auditor.accountants.verdict import LEAK_MARGIN, FailOn, Gate
from fedrec_auditor.auditor.commands.options import Allowed, Baseline
from fedrec_auditor.auditor.commands.run import exit_code
from fedrec_auditor.auditor.output import spare_output


def command(
    directory: Annotated[Path, typer.Argument(help="A run directory with a report.json.")],
    fail_on: Annotated[
        FailOn, typer.Option(help="Which findings junit.xml calls failures.")
    ] = FailOn.VIOLATED,
    allow: Annotated[
        list[Allowed] | None,
        typer.Option(help="inconclusive: a sample that is too small is no error in junit.xml."),
    ] = None,
    leak_margin: Annotated[
        float,
        typer.Option(help="By how much an attack must beat guessing to be a leak."),
    ] = LEAK_MARGIN,
    baseline: Baseline = None,
) -> None:
    """Render all reports again from report.json, without running a target."""
    from rich.console import Console

    from fedrec_auditor.reports import store, terminal
    from fedrec_auditor.reports.record import Record

    gate = Gate(fail_on, tuple(allow or ()), leak_margin)
    record = Record.read(directory)
    before = None if baseline is None else Record.read(baseline)
    record.save(directory, gate)
    with spare_output("The reports are written."):
        console = Console()
        terminal.render_gate(record, gate, before, console)
        first, *others, source = store.FILES
        text = f"Rendered {directory / first}, {', '.join(others)} from {source}."
        console.out(text, highlight=False)
    if before is not None:
        raise typer.Exit(exit_code(record, gate, before))
