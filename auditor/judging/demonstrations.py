"""Demonstrations of the papers, played and judged: a violated claim shown, beside a control."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements.bound import Bound
from fedrec_auditor.accountants.statements.claim import Claim
from fedrec_auditor.accountants.verdict import Verdict
from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.auditor.worlds.measure import Measured, measure
from fedrec_auditor.auditor.worlds.worlds import Worlds
from fedrec_auditor.reports.rows import DemonstrationRow, Finding, TrialRow
from fedrec_auditor.targets.declarations.demonstration import Demonstration, DistinguishingGame
from fedrec_auditor.targets.declarations.paper import paper_of
from fedrec_auditor.targets.systems.base import ScopedClaim, Target

QUICK_SHARE, QUICK_LEAST = 10, 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A demonstration's row, the findings that follow from it, and what went wrong."""

    row: DemonstrationRow
    findings: tuple[Finding, ...]
    errors: tuple[str, ...]


def show(
    name: str,
    shown: Demonstration,
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
    sides = ("violation", shown.violation), ("control", shown.control)
    for (part, side), stream in zip(sides, rng.spawn(2), strict=True):
        claim = claim_of(side)
        measured = measure(
            worlds(side),
            (claim,),
            FAMILIES["estimators"].member(side.estimator)(),
            delta=side.delta,
            confidence=confidence,
            samples=_size(side, quick),
            rng=stream,
        )
        trials.append(_row(side, claim, measured.bound))
        finding = _finding(side, claim, measured)
        if part == "violation" or finding.verdict is Verdict.UNSOUND:
            findings.append(finding)
        if _size(side, quick) < side.samples:
            notes.append(f"Quick: the {part} had a tenth of its {side.samples:,} runs a world.")
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
        entries=shown.entries,
        target=violation.target,
        violation=violation,
        control=control,
        shown=violation.exceeds and not control.exceeds,
        note=" ".join(notes),
    )
    return Shown(row=row, findings=tuple(findings), errors=tuple(errors))


def worlds(side: DistinguishingGame) -> Worlds:
    """The two worlds of a side."""
    return Worlds(names=side.worlds, scope=side.scope, draw=side.draw, statistic=side.statistic)


def claim_of(side: DistinguishingGame) -> Claim:
    """The claim that a side is about; InputError if no claim of the system speaks of it."""
    system, population = side.system, side.population
    claims = [scoped.claim for scoped in system.scoped_claims(population)]
    if side.claim:
        paper = paper_of(type(system).__module__)
        assert paper is not None
        claims = [paper.scoped(paper.entry(side.claim), system, population).claim]
    for claim in claims:
        if claim.scope.covers(side.scope) and claim.delta <= side.delta:
            return claim
    raise InputError(
        f"Expected a claim of {system.name} that covers [{side.scope}] at delta={side.delta}, got "
        "none. Ask in a scope of which it speaks."
    )


def _size(side: DistinguishingGame, quick: bool) -> int:
    if not quick:
        return side.samples
    return min(side.samples, max(side.samples // QUICK_SHARE, QUICK_LEAST))


def _finding(side: DistinguishingGame, claim: Claim, measured: Measured) -> Finding:
    """The claim judged by this bound, and by what an accountant proves of the same system."""
    from fedrec_auditor.auditor.judging import (
        accounting,  # slow to import, and names are listed without
    )

    bound = measured.bound
    if not side.proved:
        return Finding.of(
            side.system.name,
            claim,
            bound.scope,
            delta=bound.delta,
            measured=bound,
        )
    return accounting.evaluate(
        side.system,
        ScopedClaim(claim=claim, scope=bound.scope, delta=bound.delta),
        side.population,
        exact=(),
        sampled=(bound,),
        alarms=(measured.alarm,),
        accountants=accounting.all_accountants(),
    )


def _row(side: DistinguishingGame, claim: Claim, bound: Bound) -> TrialRow:
    return TrialRow(
        target=side.system.name,
        settings=_settings(side.system),
        claim=claim,
        worlds=side.worlds,
        statistic=side.statistic,
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
