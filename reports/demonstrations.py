"""Demonstrations in words: what was claimed, what was measured, and what the control gave."""

from __future__ import annotations

from collections.abc import Sequence

from fedrec_auditor.accountants.statements.bound import Bound
from fedrec_auditor.reports.rows import DemonstrationRow, TrialRow
from fedrec_auditor.reports.words import brief_support_words, delta_words, measured_words, number

HEADS = ("demonstration", "claim", "measured", "control", "outcome")


def summary(rows: Sequence[DemonstrationRow]) -> str:
    """How many violations were shown, in one sentence."""
    shown = sum(row.shown for row in rows)
    return f"Demonstrations: {shown} of {len(rows)} violations shown on the target itself."


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


def cells(row: DemonstrationRow) -> tuple[str, ...]:
    """A row of a table below ``HEADS``: the bounds in short, and what came of it."""
    claim, scope = row.violation.claim, row.violation.bound.scope
    return (
        title(row),
        f"≤ {number(claim.epsilon)}, {delta_words(claim.delta)}\n"
        f"{scope.unit}, {scope.adjacency}, {scope.vantage}, {scope.horizon}",
        _brief(row.violation.bound),
        f"{_brief(row.control.bound)}\nclaimed ≤ {number(row.control.claim.epsilon)}",
        outcome(row),
    )


def title(row: DemonstrationRow) -> str:
    """Name, and the entries of the catalogue it shows."""
    return f"{row.name} (claims {', '.join(row.entries)})"


def violation_words(row: DemonstrationRow) -> str:
    """What was claimed and what was measured, as sentences."""
    return _trial_words(row.violation)


def control_words(row: DemonstrationRow) -> str:
    """What the control is, and what it gave, as sentences."""
    return f"Control: {_trial_words(row.control)}"


def _brief(bound: Bound) -> str:
    return f"≥ {number(bound.told)}, {delta_words(bound.delta)}\n{brief_support_words(bound)}"


def _trial_words(trial: TrialRow) -> str:
    claim, (a, b) = trial.claim, trial.worlds
    return (
        f"{system(trial)} is claimed to have epsilon at most {number(claim.epsilon)} "
        f"({delta_words(claim.delta)}; {claim.scope}): {claim.statement} ({claim.source}). "
        f"Worlds: {a}; {b}. Statistic: {trial.statistic}. "
        f"Epsilon is {measured_words(trial.bound)}."
    )
