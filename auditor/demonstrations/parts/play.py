"""Demonstrations, played and judged: each violated claim shown on the target, beside a control."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from fedrec_auditor.accountants.statements.bound import Bound
from fedrec_auditor.accountants.verdict import Verdict
from fedrec_auditor.auditor import accounting
from fedrec_auditor.auditor.demonstrations.base import Demonstration, DistinguishingGame
from fedrec_auditor.auditor.families import FAMILIES
from fedrec_auditor.auditor.measure import Measured, measure
from fedrec_auditor.reports.rows import DemonstrationRow, Finding, TrialRow
from fedrec_auditor.targets.systems.base import ScopedClaim, Target

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
    return tuple(n for n in family.able() if not targets or target_of(n) in targets)


def target_of(name: str) -> str:
    """The target that a demonstration is about."""
    return str(FAMILIES["demonstrations"].member(name).target)


def runs(name: str) -> int:
    """Runs a world of a demonstration and its control: how long it takes, roughly."""
    demonstration: Demonstration = FAMILIES["demonstrations"].member(name)()
    sides = (demonstration.violation(), demonstration.control())
    return sum(side.samples for side in sides)


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
    games = ("violation", demonstration.violation()), ("control", demonstration.control())
    for (part, game), stream in zip(games, rng.spawn(2), strict=True):
        measured = measure(
            game.worlds,
            (game.claim,),
            game.estimator,
            delta=game.delta,
            confidence=confidence,
            samples=_size(game, quick),
            rng=stream,
        )
        trials.append(_row(game, measured.bound))
        finding = _finding(game, measured)
        if part == "violation" or finding.verdict is Verdict.UNSOUND:
            findings.append(finding)
        if _size(game, quick) < game.samples:
            notes.append(f"Quick: the {part} had a tenth of its {game.samples:,} runs a world.")
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


def _size(game: DistinguishingGame, quick: bool) -> int:
    if not quick:
        return game.samples
    return min(game.samples, max(game.samples // QUICK_SHARE, QUICK_LEAST))


def _finding(game: DistinguishingGame, measured: Measured) -> Finding:
    """The claim judged by this bound, and by what an accountant proves of the same system."""
    bound = measured.bound
    if game.population is None:
        return Finding.of(
            game.system.name,
            game.claim,
            bound.scope,
            delta=bound.delta,
            measured=bound,
        )
    return accounting.evaluate(
        game.system,
        ScopedClaim(claim=game.claim, scope=bound.scope, delta=bound.delta),
        game.population,
        exact=(),
        sampled=(bound,),
        alarms=(measured.alarm,),
        accountants=accounting.all_accountants(),
    )


def _row(game: DistinguishingGame, bound: Bound) -> TrialRow:
    one, other = game.worlds.names
    return TrialRow(
        target=game.system.name,
        settings=_settings(game.system),
        claim=game.claim,
        worlds=(one, other),
        statistic=game.worlds.statistic,
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
