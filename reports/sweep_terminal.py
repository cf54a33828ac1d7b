"""A sweep in the terminal: the points of each system."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fedrec_auditor.reports.frontier import EPSILONS, frontiers, level_words, without_utility
from fedrec_auditor.reports.sweep_rows import OverTrainingsRow, SweepContents
from fedrec_auditor.reports.words import brief, printable


def render_sweep(swept: SweepContents, console: Console) -> None:
    """Print a table for each system, and what failed."""
    for system in frontiers(swept):
        table = Table(title=Text(printable(system.target)), title_justify="left")
        wider = ("proved", "shown") if system.wider else ()
        heads = ("Setting", system.measure, "Gain", *EPSILONS, *(f"user: {kind}" for kind in wider))
        for head in heads:
            table.add_column(Text(printable(head)))
        for point in system.points:
            epsilons = [point.said(kind) for kind in EPSILONS]
            epsilons += [point.said(kind, whole=True) for kind in wider]
            cells = (point.name, _sweep_figure(point.utility), _sweep_figure(point.gain), *epsilons)
            table.add_row(*(Text(printable(cell)) for cell in cells))
        console.print(table)
        said = (
            f"{system.metric}: {system.protocol}",
            *(f"{level.name}: {level_words(level)}" for level in system.levels),
            f"gain over guessing of {system.attack}" if system.attack else "no attack was run",
            f"epsilon: {system.scope}" if system.scope else "",
        )
        console.print(Text(printable("; ".join(filter(None, said)) + ".")))
    if missing := without_utility(swept):
        console.print(Text(printable(missing)))
    for answer in swept.answers:
        console.print(Text(printable(f"{answer.target}: {answer.words}")))
    for error in swept.errors:
        console.print(Text(printable(f"error: {error}")))


def _sweep_figure(row: OverTrainingsRow | None) -> str:
    if row is None:
        return "-"
    if row.ci_low is None or row.ci_high is None:
        return f"{brief(row.value)} (of {row.trainings} trainings, others failed)"
    return f"{brief(row.value)} [{brief(row.ci_low)}, {brief(row.ci_high)}]"
