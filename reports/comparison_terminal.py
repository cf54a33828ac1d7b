"""Two records compared, in the terminal: how they differ, then what changed, the worst first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedrec_auditor.reports.change import Trend
from fedrec_auditor.reports.comparison import Comparison
from fedrec_auditor.reports.paragraph import print_hanging, print_line

if TYPE_CHECKING:
    from rich.console import Console

_HEADS = {
    Trend.WORSE: ("Worse", "bold red"),
    Trend.BETTER: ("Better", "bold"),
    Trend.OTHER: ("Changed, neither worse nor better", "bold"),
}


def render_comparison(compared: Comparison, console: Console) -> None:
    """Print what differs between the audits first: anything may have moved for that."""
    if compared.differences:
        print_line(console, "Not the same audits: what moved may have moved for this.", "yellow")
        for line in compared.differences:
            print_hanging(console, line, "-", indent=2)
    else:
        print_line(console, "The same plan, data and versions.")
    for trend, (head, style) in _HEADS.items():
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
    """What counts as a change."""
    return (
        "What counts: a verdict; an epsilon, proved or calculated, that differs by more than a "
        "thousandth; a sampled one that passes what the other audit proves; a figure of utility or "
        f"of an attack (of these {compared.rows:,} are compared) whose intervals do not overlap, "
        "widened for how many are compared. An attack's are of one training: where the seeds "
        "differ, it is neither worse nor better."
    )
