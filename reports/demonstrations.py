"""Demonstrations in words: what was claimed, what was measured, and what the control gave."""

from __future__ import annotations

from collections.abc import Sequence

from fedrec_auditor.reports import say
from fedrec_auditor.reports.document import Facts, Passage, Text
from fedrec_auditor.reports.rows import DemonstrationRow, TrialRow
from fedrec_auditor.reports.words import CLAIMED, number


def summary(rows: Sequence[DemonstrationRow]) -> str:
    """How many claims were refuted, and how many derived figures exceeded, in one sentence."""
    parts = []
    for word, what in (("claimed", "violations shown"), ("derived", "derived figures exceeded")):
        rows_of = [row for row in rows if CLAIMED[row.violation.claim.basis] == word]
        if rows_of:
            parts.append(f"{sum(row.shown for row in rows_of)} of {len(rows_of)} {what}")
    return f"Demonstrations: {' and '.join(parts)} on the target itself."


def outcome(row: DemonstrationRow) -> str:
    """Whether the violation was shown, or what kept it from being shown."""
    if row.shown:
        return "shown"
    return "control failed" if row.control.exceeds else "not shown at this size"


def system(trial: TrialRow) -> str:
    """The system of a trial with the settings that are not its paper's."""
    changed = ", ".join(
        f"{name}={number(value) if isinstance(value, float) else value}"
        for name, value in sorted(trial.settings.items())
    )
    return f"{trial.target} ({changed})" if changed else trial.target


def demonstration_part(row: DemonstrationRow) -> Passage:
    """A violation played on the target itself, and the control that must stay below its claim."""
    facts: tuple[tuple[str, Text], ...] = (
        *_trial(row.violation, CLAIMED[row.violation.claim.basis].capitalize(), "Measured"),
        *_trial(row.control, "Control claims", "Control gave"),
    )
    noted = (("Note", row.note),) if row.note else ()
    title = f"{row.name} (claims {', '.join(row.entries)})"
    return Passage(title, (Facts(facts + noted),), verdict=f"Demonstration {outcome(row)}")


def _trial(trial: TrialRow, claimed: str, measured: str) -> tuple[tuple[str, Text], ...]:
    claim, (first, second) = trial.claim, trial.worlds
    return (
        (claimed, f"{say.claimed(claim)}, of {system(trial)}: {claim.statement} ({claim.source})"),
        (measured, say.shown(trial.bound)),
        ("Worlds", f"{first}; {second}. Statistic: {trial.statistic}"),
    )
