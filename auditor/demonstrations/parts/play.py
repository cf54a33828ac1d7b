"""Demonstrations, played and judged: each violated claim shown on the target, beside a control."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from fedrec_auditor.accountants.statements.bound import Bound
from fedrec_auditor.accountants.verdict import Verdict, judge
from fedrec_auditor.auditor import accounting
from fedrec_auditor.auditor.demonstrations.base import Contest, Demonstration, Transcript
from fedrec_auditor.auditor.families import FAMILIES
from fedrec_auditor.auditor.games import neighbours
from fedrec_auditor.reports.record import DemonstrationRow, Finding, TrialRow
from fedrec_auditor.targets.systems.base import Question, Target

QUICK_SHARE, QUICK_LEAST = 10, 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A demonstration's row, the findings that follow from it, and what went wrong."""

    row: DemonstrationRow
    findings: tuple[Finding, ...]
    errors: tuple[str, ...]


def names(targets: Sequence[str] = ()) -> tuple[str, ...]:
    """The demonstrations on these targets, on all if none is named, in order of name."""
    family = FAMILIES["demonstrations"]
    return tuple(n for n in family.names() if not targets or target_of(n) in targets)


def target_of(name: str) -> str:
    """The target that a demonstration is about."""
    return str(FAMILIES["demonstrations"].member(name).target)


def runs(name: str) -> int:
    """Runs a world of a demonstration and its control: how long it takes, roughly."""
    demonstration: Demonstration = FAMILIES["demonstrations"].member(name)()
    sides = (demonstration.violation(), demonstration.control())
    return sum(side.samples for side in sides if isinstance(side, Contest))


def show(
    name: str,
    demonstration: Demonstration,
    *,
    confidence: float,
    quick: bool,
    rng: np.random.Generator,
) -> Shown:
    """Play a demonstration and its control, and judge both claims.

    The claim's finding is given, whatever its verdict; the control's only if it contradicts a
    proof. A control above its own claim is an error: then the demonstration shows nothing.
    ``quick`` plays with a tenth of the runs, 20,000 a world at least.
    """
    trials, findings, notes, errors = [], [], [], []
    contests = ("violation", demonstration.violation()), ("control", demonstration.control())
    for (part, contest), coins in zip(contests, rng.spawn(2), strict=True):
        bound, alarm = _measured(contest, confidence, quick, coins)
        trials.append(_row(contest, bound))
        finding = _finding(contest, bound, alarm)
        if part == "violation" or finding.verdict is Verdict.UNSOUND:
            findings.append(finding)
        if isinstance(contest, Contest) and _size(contest, quick) < contest.samples:
            notes.append(f"Quick: the {part} had a tenth of its {contest.samples:,} runs a world.")
    violation, control = trials
    if control.exceeds:
        errors.append(
            f"{name}: the control's lower bound {control.bound.epsilon:.6g} exceeds its claim of "
            f"{control.claim.epsilon:.6g}, so nothing is shown"
        )
    elif not violation.exceeds:
        notes.insert(0, "Not shown at this size.")
    row = DemonstrationRow(
        name=name,
        entries=demonstration.entries,
        target=violation.target,
        violation=violation,
        control=control,
        shown=violation.exceeds and not control.exceeds,
        note=" ".join(notes),
    )
    return Shown(row=row, findings=tuple(findings), errors=tuple(errors))


def _size(contest: Contest, quick: bool) -> int:
    if not quick:
        return contest.samples
    return min(contest.samples, max(contest.samples // QUICK_SHARE, QUICK_LEAST))


def _measured(
    contest: Contest | Transcript, confidence: float, quick: bool, rng: np.random.Generator
) -> tuple[Bound, Bound | None]:
    """The lower bound, and that at the confidence of an alarm where it was sampled."""
    if isinstance(contest, Transcript):
        return contest.bound, None
    duel = neighbours.play(contest, confidence=confidence, rng=rng, samples=_size(contest, quick))
    return duel.bound, duel.alarm


def _finding(contest: Contest | Transcript, bound: Bound, alarm: Bound | None) -> Finding:
    """The claim judged by this bound, and by what an accountant proves of the same system."""
    question = Question(claim=contest.claim, scope=bound.scope, delta=bound.delta)
    if contest.population is None:
        return Finding.of(
            contest.system.name,
            contest.claim,
            bound.scope,
            judge(contest.claim, scope=bound.scope, delta=bound.delta, measured=bound),
            delta=bound.delta,
            accounted=None,
            measured=bound,
        )
    return accounting.answer(
        contest.system,
        question,
        contest.population,
        exact=() if alarm is not None else (bound,),
        sampled=() if alarm is None else (bound,),
        alarms=() if alarm is None else (alarm,),
        accountants=accounting.all_accountants(),
    )


def _row(contest: Contest | Transcript, bound: Bound) -> TrialRow:
    return TrialRow(
        target=contest.system.name,
        settings=_settings(contest.system),
        claim=contest.claim,
        worlds=contest.worlds if isinstance(contest, Contest) else None,
        statistic=contest.statistic,
        bound=bound,
    )


def _settings(system: Target) -> dict[str, bool | int | float | str]:
    """The settings that differ from the paper's; parts in words."""
    plain = type(system)()
    found: dict[str, bool | int | float | str] = {}
    for field in fields(system):  # type: ignore[arg-type]
        value: Any = getattr(system, field.name)
        if value != getattr(plain, field.name):
            found[field.name] = value if isinstance(value, bool | int | float) else str(value)
    return found
