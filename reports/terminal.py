"""The record as one table in the terminal, or as one plain line a finding in a log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accountants.verdict import Verdict
from reports.record import AttackRow, Finding, MeasuredRow, Record
from reports.section import Section, sections
from reports.words import SIGNS, delta_words, number, percent, printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_STYLES = {
    Verdict.VIOLATED: "bold red",
    Verdict.UNSOUND: "bold magenta",
    Verdict.UNSUBSTANTIATED: "yellow",
    Verdict.INCOMPARABLE: "cyan",
    Verdict.CONSISTENT: "",
}


def render(record: Record, console: Console) -> None:
    """Print the findings, then the errors; without boxes and colours if not a terminal."""
    if console.is_terminal:
        console.print(_table(record))
    else:
        for line in _lines(record):
            _plain(console, line)
    for error in record.errors:
        _plain(console, f"error: {printable(error)}", style="bold red")


def _table(record: Record) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(title="Privacy audit", show_lines=True, expand=False, pad_edge=False)
    table.add_column("Target", overflow="fold", min_width=6)
    table.add_column("Claim", overflow="fold", min_width=11)
    for heading in ("Accounted", "Measured"):
        table.add_column(heading, overflow="fold", min_width=9)
    table.add_column("Worst attack", overflow="fold", min_width=10)
    table.add_column("Verdict", overflow="fold", min_width=15)
    for section in sections(record):
        for position, finding in enumerate(section.findings):
            first = position == 0
            cells = _cells(section, finding)
            texts = [Text(cell) for cell in cells]
            texts[-1].stylize(_STYLES[finding.verdict])
            if not first:
                texts[0], texts[4] = Text(""), Text("")
            table.add_row(*texts, end_section=position + 1 == len(section.findings))
        if not section.findings:
            table.add_row(*(Text(cell) for cell in (printable(section.target), "none", "", "",
                                                    _attack(section.worst), "not judged")))  # fmt: skip
    return table


def _cells(section: Section, finding: Finding) -> tuple[str, ...]:
    claim, accounted = finding.claim, finding.accounted
    proved = "none"
    if accounted is not None:
        proved = f"≤ {number(accounted.epsilon)}\n{delta_words(accounted.delta)}"
    return (
        printable(section.target),
        f"{_claimed(finding)}\n{delta_words(claim.delta)}\n{_scope(finding)}",
        proved,
        "none" if finding.measured is None else _measured(finding.measured),
        _attack(section.worst),
        _verdict(finding),
    )


def _claimed(finding: Finding) -> str:
    return f"≤ {number(finding.claim.epsilon)}"


def _scope(finding: Finding) -> str:
    asked, claimed = finding.scope, finding.claim.scope
    text = f"{asked.unit}, {asked.adjacency}, {asked.vantage}, {asked.horizon}"
    return text if asked == claimed else f"{text} (claimed for: {claimed.scope()})"


def _measured(measured: MeasuredRow) -> str:
    how = "exact" if measured.confidence == 1.0 else f"at {percent(measured.confidence)}"
    size = "" if measured.samples is None else f", n={measured.samples:,}"
    return f"≥ {number(measured.epsilon)}\n{delta_words(measured.delta)}\n{how}{size}"


def _attack(attack: AttackRow | None) -> str:
    if attack is None:
        return "none"
    text = f"{attack.attack}: {attack.metric} {number(attack.value)}"
    base = "" if attack.baseline is None else f" (baseline {number(attack.baseline)})"
    return printable(text + base)


def _verdict(finding: Finding) -> str:
    vacuous = "\nvacuous" if finding.vacuous else ""
    return f"{SIGNS[finding.verdict]} {finding.verdict}{vacuous}"


def _lines(record: Record) -> list[str]:
    names = ("", "claim", "accounted", "measured", "worst attack", "verdict")
    lines = []
    for section in sections(record):
        for finding in section.findings:
            cells = [printable(c.replace("\n", ", ")) for c in _cells(section, finding)]
            cells[-1] = cells[-1].split(" ", 1)[1]
            head, *rest = cells
            fields = [f"{name} {cell}" for name, cell in zip(names[1:], rest, strict=True)]
            lines.append(f"{head}: " + "; ".join(fields))
    return lines


def _plain(console: Console, line: str, style: str = "") -> None:
    console.print(line, style=style, markup=False, highlight=False, soft_wrap=True, emoji=False)
