"""The record in the terminal, or in a log: a line per system; and two records compared."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fedrec_auditor.accountants.verdict import INCOMPLETE, NOT_ASSESSED, Gate
from fedrec_auditor.reports.change import Trend
from fedrec_auditor.reports.comparison import Comparison
from fedrec_auditor.reports.document_terminal import write_blocks
from fedrec_auditor.reports.gate import GateOutcome
from fedrec_auditor.reports.glance import Glance, glances, summary
from fedrec_auditor.reports.paragraph import (
    paragraph,
    print_hanging,
    print_line,
    print_text,
    width_of,
)
from fedrec_auditor.reports.rows import Contents
from fedrec_auditor.reports.section import sections
from fedrec_auditor.reports.severity import Severity
from fedrec_auditor.reports.system_document import system_document
from fedrec_auditor.reports.words import capitalized, counted, duration, printable

if TYPE_CHECKING:
    from rich.console import Console


SEVERITIES = {
    Severity.CRITICAL: "bold red",
    Severity.HIGH: "red",
    Severity.MEDIUM: "yellow",
    Severity.NOT_ASSESSED: "yellow",
    Severity.LOW: "",
}
"""How a terminal shows a severity."""
_TRENDS = {
    Trend.WORSE: ("Worse", "bold red"),
    Trend.BETTER: ("Better", "bold"),
    Trend.OTHER: ("Changed, neither worse nor better", "bold"),
}
_INDENT = 4
_NAME = 20
"""Columns of the systems' names, of which longer ones take more."""


def render(record: Contents, console: Console) -> None:
    """Print the systems, the worst first, then notes and errors; plain if not a terminal.

    A system's first line has its severity, its name, its verdict and the numbers of that; what
    they are for, what an attacker got, what utility does not beat and what to do hang below.
    """
    print_line(console, title(record), style="bold")
    _render_glances(glances(record), console)
    print_hanging(console, summary(record))
    unplayed = {section.target: len(section.unplayed) for section in sections(record)}
    if told := ", ".join(f"{count} on {name}" for name, count in unplayed.items() if count):
        print_hanging(console, f"Attacks that could not run at all: {told}.")
    for note in record.notes:
        print_hanging(console, note, "note:", style="yellow")
    for error in record.errors:
        print_hanging(console, error, "error:", style="bold red")


def render_system(record: Contents, glance: Glance, console: Console) -> None:
    """Print the verdict and what to do; claims, attacks, utility and what did not run below."""
    title = f"{glance.section.target}: {glance.assessment.words}"
    print_line(console, title, style=SEVERITIES[glance.severity] or "bold")
    write_blocks(system_document(record, glance), console)


def render_gate(outcome: GateOutcome, gate: Gate, console: Console) -> None:
    """Print what the exit code rests on beside findings: leaks, what is unknown, what got worse."""
    if outcome.leak:
        print_hanging(console, outcome.leak)
    for glance in outcome.failing:
        print_hanging(console, glance.exposed, "fails:", style="bold red")
    so = f". Exit {INCOMPLETE}; --allow {NOT_ASSESSED}" if outcome.code == INCOMPLETE else ""
    for line in outcome.unassessed:
        allowed = ". Allowed" if NOT_ASSESSED in gate.allow else so
        print_hanging(console, f"{line}{allowed}", "not assessed:", style="yellow")
    if (compared := outcome.compared) is not None:
        for line in compared.worse:
            print_hanging(console, line, "worse:", style="bold red")
        for line in (*compared.differences, *compared.uncertain):
            print_hanging(console, line, "note:", style="yellow")
        if not compared.worse:
            print_line(console, f"Against the baseline: {compared.conclusion}")


def render_comparison(compared: Comparison, console: Console) -> None:
    """Print what differs between the audits first: anything may have moved for that."""
    if compared.differences:
        print_line(console, "Not the same audits: what moved may have moved for this.", "yellow")
        for line in compared.differences:
            print_hanging(console, line, "-", indent=2)
    else:
        print_line(console, "The same plan, data and versions.")
    for trend, (head, style) in _TRENDS.items():
        lines = compared.lines(trend)
        if lines:
            console.print()
            print_line(console, f"{head} ({len(lines):,})", style)
        for line in lines:
            print_hanging(console, line, "-", indent=2)
    console.print()
    for line in compared.uncertain:
        print_hanging(console, line, "note:", style="yellow")
    for line in compared.unassessed:
        print_hanging(console, line, "not assessed:", style="yellow")
    print_hanging(console, rule(compared))
    print_line(console, compared.conclusion, "bold")


def rule(compared: Comparison) -> str:
    """Rule for a change."""
    return (
        "What counts: a verdict; an epsilon, proved or calculated, that differs by more than a "
        "thousandth; a sampled one that passes what the other audit proves; a figure of utility or "
        f"of an attack (of these {compared.rows:,} are compared) whose intervals do not overlap, "
        "widened for how many are compared. An attack's are of one training: where the seeds "
        "differ, it is neither worse nor better."
    )


def render_pointer(record: Contents, directory: Path, console: Console) -> None:
    """Print how the worst system is seen in full; nothing of a record without one."""
    worst = next(iter(glances(record)), None)
    if worst is not None:
        names = shlex.join((str(directory), worst.section.target))
        print_line(console, f"Details: auditor report {names}")


def title(record: Contents) -> str:
    """What was audited, how, and how long it took."""
    data, timing = record.provenance.data, record.provenance.timing
    count = len(sections(record))
    parts = (
        "PRIVACY AUDIT",
        "" if data is None else printable(data.name),
        counted(count, "system"),
        "quick" if record.plan.get("quick") is True else "full",
        duration(timing["wall"]) if "wall" in timing else "",
    )
    return "  ".join(filter(None, parts))


def _render_glances(seen: Sequence[Glance], console: Console) -> None:
    """A head a system, the worst first, in columns; below it what does not fit."""
    from rich.cells import cell_len
    from rich.text import Text

    names = [printable(glance.section.target) for glance in seen]
    room = min(max(map(cell_len, names), default=0), _NAME)
    levels = max((len(glance.assessment.words) for glance in seen), default=0)
    for glance, name in zip(seen, names, strict=True):
        level = glance.assessment.words
        start = f"{level:<{levels}}  {name}{' ' * (room - cell_len(name))} "
        text = Text(paragraph(glance.head, width_of(console), label=start, hang=_INDENT))
        text.stylize(SEVERITIES[glance.severity], 0, len(level))
        text.stylize("bold", levels + 2, levels + 2 + len(name))
        print_text(console, text)
        told = (glance.about, capitalized(glance.got), glance.shortfall, f"To do: {glance.todo}")
        for line in filter(None, told):
            print_hanging(console, line, indent=_INDENT)
