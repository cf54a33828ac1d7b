"""``auditor report``: render the reports again from the record."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from fedrec_auditor.accountants.verdict import LEAK_MARGIN, FailOn, Gate
from fedrec_auditor.auditor.commands.options import Allow, Baseline
from fedrec_auditor.auditor.machine.output import spare_output


def command(
    directory: Annotated[Path, typer.Argument(help="A run directory with a report.json.")],
    fail_on: Annotated[
        FailOn, typer.Option(help="Which findings junit.xml calls failures.")
    ] = FailOn.VIOLATED,
    allow: Allow = None,
    leak_margin: Annotated[
        float,
        typer.Option(help="The share of what guessing leaves open that an attack must win."),
    ] = LEAK_MARGIN,
    baseline: Baseline = None,
    figures: Annotated[Path | None, typer.Option(help="A folder for every figure, as SVG.")] = None,
    tables: Annotated[Path | None, typer.Option(help="A folder for the tables, as CSV.")] = None,
) -> None:
    """Render all reports again from report.json, without running a target."""
    from rich.console import Console

    from fedrec_auditor.reports import picture_files, store, table_files, terminal
    from fedrec_auditor.reports.gate import GateOutcome
    from fedrec_auditor.reports.record import Record

    gate = Gate(fail_on, tuple(allow or ()), leak_margin)
    record = Record.read(directory)
    before = None if baseline is None else Record.read(baseline)
    for folder in filter(None, (figures, tables)):
        store.check_writable(folder)
    outcome = GateOutcome.of(record, gate, before)
    if before is None:  # rendered, whatever the gate says
        outcome = replace(outcome, code=0)
    record.save(directory, gate)
    drawn = None if figures is None else picture_files.write_pictures(record, figures)
    listed = () if tables is None else table_files.write_tables(record, tables)
    with spare_output("The reports are written."):
        console = Console()
        terminal.render(record, console)
        terminal.render_gate(outcome, gate, console)
        first, *others, source = store.FILES
        text = f"Rendered {directory / first}, {', '.join(others)} from {source}."
        console.out(text, highlight=False)
        if drawn is not None:
            console.out(f"Figures: {len(drawn)} as SVG in {figures}.", highlight=False)
        if listed:
            text = f"Tables: {', '.join(listed)} as CSV in {tables}."
            console.out(text, highlight=False)
        terminal.render_pointer(record, directory, console)
    raise typer.Exit(outcome.code)
