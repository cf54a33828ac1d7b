"""The record in the terminal, or in a log: a line a system."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fedrec_auditor.accountants.verdict import FailOn, Gate
from fedrec_auditor.reports import demonstrations
from fedrec_auditor.reports.comparison import Comparison
from fedrec_auditor.reports.glance import Glance, glances
from fedrec_auditor.reports.leaks import leak_line, leaks
from fedrec_auditor.reports.rows import Contents, DemonstrationRow
from fedrec_auditor.reports.section import sections, summary
from fedrec_auditor.reports.severity import Severity
from fedrec_auditor.reports.words import (
    duration,
    printable,
)

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


SEVERITIES = {
    Severity.CRITICAL: "bold red",
    Severity.HIGH: "red",
    Severity.MEDIUM: "yellow",
    Severity.LOW: "",
}
"""How a terminal shows a severity."""


def render(record: Contents, console: Console) -> None:
    """Print the systems, the worst first, then notes and errors; plain if not a terminal."""
    print_line(console, title(record), style="bold")
    _render_glances(glances(record), console)
    print_line(console, summary(record))
    if record.skipped:
        names = Counter(row.target for row in record.skipped)
        told = ", ".join(f"{count} on {printable(name)}" for name, count in names.items())
        print_line(console, f"Attacks that did not run: {told}; the report says why of each.")
    if record.demonstrations:
        _render_demonstrations(record.demonstrations, console)
    for note in record.notes:
        print_line(console, f"note: {note}", style="yellow")
    for error in record.errors:
        print_line(console, f"error: {error}", style="bold red")


def render_gate(record: Contents, gate: Gate, baseline: Contents | None, console: Console) -> None:
    """Print what the exit code rests on beside findings: the worst leak, and what got worse."""
    if gate.fail_on is FailOn.LEAK:
        found = leaks(record, gate.leak_margin)
        print_line(console, leak_line(record, found, gate.leak_margin))
    if baseline is not None:
        compared = Comparison.of(record, baseline, gate)
        for line in compared.worse:
            print_line(console, f"worse: {line}", style="bold red")
        for line in compared.uncertain:
            print_line(console, f"note: {line}", style="yellow")
        if not compared.worse:
            print_line(console, "Nothing got worse than in the baseline.")


def title(record: Contents) -> str:
    """What was audited, how, and how long it took."""
    data, timing = record.provenance.data, record.provenance.timing
    count = len(sections(record))
    parts = (
        "PRIVACY AUDIT",
        "" if data is None else printable(data.name),
        f"{count} system{'' if count == 1 else 's'}",
        "quick" if record.plan.get("quick") is True else "full",
        duration(timing["wall"]) if "wall" in timing else "",
    )
    return "  ".join(filter(None, parts))


def _render_glances(seen: Sequence[Glance], console: Console) -> None:
    """A line a system, the worst first; in a terminal in columns, so that it hangs."""
    if not console.is_terminal:
        for glance in seen:
            print_line(console, glance.line)
        return
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold", max_width=20)
    table.add_column(overflow="fold")
    for glance in seen:
        name = Text(printable(glance.section.target), style="bold")
        word = Text(glance.severity.value, style=SEVERITIES[glance.severity])
        table.add_row(word, name, Text(printable(glance.words)))
    console.print(table)


def _render_demonstrations(rows: Sequence[DemonstrationRow], console: Console) -> None:
    """Claim, measurement and control of each, as a table or as a line each."""
    cells = [demonstrations.cells(row) for row in rows]
    if not console.is_terminal:
        for name, *rest in cells:
            parts = zip(demonstrations.HEADS[1:], rest, strict=True)
            text = "; ".join(f"{head} {cell}" for head, cell in parts)
            print_line(console, f"{printable(name)}: {text.replace(chr(10), ', ')}")
        print_line(console, demonstrations.summary(rows))
        return
    from rich.text import Text

    table = new_table(demonstrations.summary(rows), show_edge=True)
    for head in demonstrations.HEADS:
        table.add_column(head.capitalize(), overflow="fold")
    for name, *rest in cells:
        table.add_row(*map(Text, (printable(name), *rest)), end_section=True)
    console.print(table)


def new_table(title: str, *, show_edge: bool = False) -> Table:
    """A table without columns yet, ruled below its head only."""
    from rich import box
    from rich.table import Table

    return Table(title=title, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=show_edge)


def print_line(console: Console, line: str, style: str = "") -> None:
    """Print one line as it is, but for what a terminal would obey; a leading indent is kept."""
    text = printable(line) if not line.startswith(" ") else "  " + printable(line)
    console.print(text, style=style, markup=False, highlight=False, soft_wrap=True, emoji=False)
