"""Command ``auditor report``: writes the reports of an audit again, or prints one system's."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Exit, Option

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.verdict import DEFAULT_GATE, DEFAULT_LEAK_MARGIN, FailOn
from fedrec_auditor.auditor.commands.options import (
    AllowOption,
    BaselineOption,
    LeakMarginOption,
    WaiverOption,
    make_enum_option,
    make_gate,
)
from fedrec_auditor.auditor.machine.output import catch_output_errors
from fedrec_auditor.auditor.plan.families import suggest_names

if TYPE_CHECKING:
    from fedrec_auditor.reports.record.record import Record


def command(
    run: Annotated[Path, Argument(help="Directory of a run, which has a report.json.")],
    target: Annotated[
        str | None,
        Argument(help="A system of the run to print in full, instead of writing reports."),
    ] = None,
    fail_on: Annotated[
        FailOn, make_enum_option("Level from which findings are failures in junit.xml.", FailOn)
    ] = FailOn.VIOLATED,
    allow: AllowOption = None,
    waivers: WaiverOption = None,
    leak_margin: LeakMarginOption = DEFAULT_LEAK_MARGIN,
    baseline: BaselineOption = None,
    figures: Annotated[Path | None, Option(help="Write only figures (SVG), here.")] = None,
    tables: Annotated[Path | None, Option(help="Write only tables (CSV), here.")] = None,
    by_attack: Annotated[
        bool, Option("--by-attack", help="Print how far each attack got on each system.")
    ] = False,
) -> None:
    """Write all reports of a run again from its report.json, or print one system in full.

    With --tables or --figures, only these are written. With --by-attack, nothing is written.
    """
    from rich.console import Console

    from fedrec_auditor.reports.record import store
    from fedrec_auditor.reports.record.record import GateOutcome, Record
    from fedrec_auditor.reports.writers import terminal
    from fedrec_auditor.reports.writers.files import write_pictures, write_tables

    gate = make_gate(fail_on, allow, waivers, leak_margin)
    record = Record.read(run)
    if target is not None or by_attack:
        shown = "--by-attack" if target is None else repr(target)
        if gate != DEFAULT_GATE or baseline or figures or tables or (target and by_attack):
            raise InputError(
                f"Expected {shown} without other options, got also another option. "
                f"Leave out all other options, or leave out {shown}."
            )
        if target is None:
            terminal.print_advantages(record, Console())
        else:
            _print_target(record, target, run)
        return
    before = None if baseline is None else Record.read(baseline)
    for folder in filter(None, (figures, tables)):
        store.prepare_directory(folder)
    outcome = GateOutcome.evaluate_gate(record, gate, before)
    written = []
    if figures is not None:
        written.append(f"Figures: {len(write_pictures(record, figures))} as SVG in {figures}.")
    if tables is not None:
        written.append(f"Tables: {', '.join(write_tables(record, tables))} as CSV in {tables}.")
    if not written:
        record.save(run, gate)
        first, *others, source = store.RUN_FILE_NAMES
        written.append(f"Rendered {run / first}, {', '.join(others)} from {source}.")
    with catch_output_errors("The reports are written."):
        terminal.print_outcome(record, outcome, gate, written, run)
    raise Exit(gate.apply_expired_waivers(0) if before is None else outcome.exit_code)


def _print_target(record: Record, target: str, run: Path) -> None:
    from rich.console import Console

    from fedrec_auditor.reports.say.summary import summarize_systems
    from fedrec_auditor.reports.writers.paragraph import print_line
    from fedrec_auditor.reports.writers.terminal import print_system

    console, glances = Console(), {each.section.target: each for each in summarize_systems(record)}
    if target not in glances:
        hint = suggest_names(target, list(glances), "It has")
        raise InputError(f"Expected a system of the run, got {target!r}. {hint}")
    glance = glances[target]
    print_system(record, glance, console)
    page = (run if run.is_dir() else run.parent) / "report.html"
    if page.is_file():
        console.print()
        print_line(console, f"With pictures: {page}#{glance.html_id}")
