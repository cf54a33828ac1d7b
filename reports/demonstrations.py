"""Demonstrations in words: what was claimed, what was measured, and what the control gave."""

from __future__ import annotations

from collections.abc import Sequence

from fedrec_auditor.reports.record import DemonstrationRow, TrialRow
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


def brief_claim(trial: TrialRow) -> str:
    """Claimed epsilon, delta and scope in short."""
    claim = trial.claim
    scope = trial.bound.scope
    said = f"≤ {number(claim.epsilon)}, {delta_words(claim.delta)}"
    return f"{said}\n{scope.unit}, {scope.adjacency}, {scope.vantage}, {scope.horizon}"


def brief_bound(trial: TrialRow) -> str:
    """The lower bound in short, with confidence and runs."""
    bound = trial.bound
    return f"≥ {number(bound.epsilon)}, {delta_words(bound.delta)}\n{brief_support_words(bound)}"


def brief_control(trial: TrialRow) -> str:
    """The control's lower bound beside its claim, in short."""
    return f"{brief_bound(trial)}\nclaimed ≤ {number(trial.claim.epsilon)}"


def title(row: DemonstrationRow) -> str:
    """Name, and the entries of the catalogue it shows."""
    return f"{row.name} (claims {', '.join(row.entries)})"


def violation_words(row: DemonstrationRow) -> str:
    """What was claimed and what was measured, as sentences."""
    return f"{_claimed(row.violation)} {_found(row.violation)}"


def control_words(row: DemonstrationRow) -> str:
    """What the control is, and what it gave, as sentences."""
    return f"Control: {_claimed(row.control)} {_found(row.control)}"


def _claimed(trial: TrialRow) -> str:
    claim = trial.claim
    return (
        f"{system(trial)} is claimed to have epsilon at most {number(claim.epsilon)} "
        f"({delta_words(claim.delta)}; {claim.scope}): {claim.statement} ({claim.source})."
    )


def _found(trial: TrialRow) -> str:
    found = f"Epsilon is {measured_words(trial.bound)}."
    a, b = trial.worlds
    return f"Worlds: {a}; {b}. Statistic: {trial.statistic}. {found}"
