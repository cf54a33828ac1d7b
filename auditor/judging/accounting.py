"""What can be said of a target without running it: proved upper and exact lower bounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from fedrec_auditor.accountants.crosscheck import cross_check
from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.losses.pure import why_infinite
from fedrec_auditor.accountants.methods.base import Accountant
from fedrec_auditor.accountants.statements import Bound, Scope, Vantage
from fedrec_auditor.accountants.verdict import Verdict, exceeds, refutes, refutes_assumptions
from fedrec_auditor.auditor.exact import delta_at, exact_lower_bound, has_curve
from fedrec_auditor.auditor.plan.families import FAMILIES, papers
from fedrec_auditor.auditor.plan.objects import settled
from fedrec_auditor.auditor.worlds.measure import too_few_trainings
from fedrec_auditor.reports.record.rows import Finding, SkippedRow
from fedrec_auditor.reports.say import settings_words
from fedrec_auditor.targets.mechanisms.base import Mechanism
from fedrec_auditor.targets.systems.base import Claimant, Population, ScopedClaim

if TYPE_CHECKING:
    from dp_accounting import DpEvent

_OF_THE_WORLD = frozenset({"rounds", "colluding", "overstated", "dropout"})
"""Settings that no repair may change: how long is trained, and what others do."""
_MOST_COPIES = 10**10
"""Most copies of which the delta that holds is told: of more it takes minutes."""


def all_accountants() -> tuple[Accountant, ...]:
    """One of every accountant; the simplest proof first, for it wins ties."""
    family = FAMILIES["accountants"]
    names = sorted(family.names(), key=lambda name: (name != "pure", name))
    return tuple(family.member(name)() for name in names)


def least_upper_bound(
    target: Claimant,
    scope: Scope,
    population: Population,
    delta: float,
    accountants: Sequence[Accountant],
) -> Bound | None:
    """The least epsilon that any accountant proves; None if none can read the target's events.

    What a stronger vantage sees is charged too: the weaker view is a function of it. Every bound is
    held to a second route where there is a cheap one: AuditError if it is too small.
    """
    vantages = (replace(scope, vantage=vantage) for vantage in Vantage)
    events = [target.event(wider, population) for wider in vantages if wider.covers(scope)]
    different = [event for place, event in enumerate(events) if event not in events[:place]]
    bounds = [least_of_event(event, scope, delta, accountants) for event in different]
    least = _least_of([bound for bound in bounds if bound is not None])
    if least is not None and target.assumes:
        least = replace(least, assumptions=(*least.assumptions, *target.assumes))
    return least


def least_of_event(
    event: DpEvent, scope: Scope, delta: float, accountants: Sequence[Accountant]
) -> Bound | None:
    """The least upper bound on ``event``; None if none can read it.

    Every bound is held to a second route, see ``least_upper_bound``.
    """
    able = (accountant for accountant in accountants if accountant.supports(event))
    bounds = [accountant.bound(event, delta=delta, scope=scope) for accountant in able]
    cross_check(event, bounds)
    return _least_of(bounds)


def _least_of(bounds: Sequence[Bound]) -> Bound | None:
    """The first of the least, but for rounding."""
    least = min((bound.epsilon for bound in bounds), default=math.inf)
    return next((bound for bound in bounds if not exceeds(bound.epsilon, least)), None)


def exact_bounds(
    target: Claimant, population: Population, scoped: ScopedClaim | None = None
) -> tuple[Bound, ...]:
    """Exact lower bounds for every scoped claim whose mechanism is written down, at its delta.

    None for a scoped claim at delta > 0 about a mechanism whose outputs are not finitely many. With
    a ``scoped``, only what speaks to it: the bound in its own scope, else those in scopes within.
    """
    asked = list(dict.fromkeys((q.scope, q.delta) for q in target.scoped_claims(population)))
    if scoped is None:
        return _exact(target, population, asked)
    within = [
        (scope, delta)
        for scope, delta in asked
        if scoped.scope.covers(scope) and delta >= scoped.delta
    ]
    own = _exact(target, population, [(scoped.scope, scoped.delta)])
    return own or _exact(target, population, within)


def _exact(
    target: Claimant, population: Population, asked: Iterable[tuple[Scope, float]]
) -> tuple[Bound, ...]:
    mechanisms = ((target.mechanism(scope, population), scope, delta) for scope, delta in asked)
    return tuple(
        exact_lower_bound(mechanism, scope, delta)
        for mechanism, scope, delta in mechanisms
        if mechanism is not None and has_curve(mechanism, delta)
    )


def evaluate(
    target: Claimant,
    scoped: ScopedClaim,
    population: Population,
    *,
    exact: Sequence[Bound],
    sampled: Sequence[Bound] = (),
    alarms: Sequence[Bound] = (),
    accountants: Sequence[Accountant],
) -> Finding:
    """Judge one scoped claim by the least upper and the largest lower bound that speak to it.

    Where an exact bound that speaks covers the scope of a sampled one, at no larger delta, and is
    tight or beside a finite proof, the sample does not count: it could only add a draw's luck.
    ``alarms`` are sampled bounds at the confidence at which a measurement contradicts a proof; one
    that does overrides all else. A bound under an assumption counts only where there is no other. A
    lower bound at delta 0 says nothing at a larger delta, so it counts only where the scoped
    claim's delta is no larger than its own.
    """
    accounted = least_upper_bound(target, scoped.scope, population, scoped.delta, accountants)
    finding = Finding.of(
        target.name,
        scoped.claim,
        scoped.scope,
        delta=scoped.delta,
        accounted=accounted,
        measured=_largest_lower_bound(scoped, accounted, exact, sampled, alarms),
        sizes=replace(target.sizes, items=population.n_items),
        note=scoped.note,
        outside_model=scoped.outside_model,
    )
    notes, holds, repair = [scoped.note], None, ""
    violated = finding.verdict is Verdict.VIOLATED
    if violated or finding.verdict is Verdict.UNSUBSTANTIATED:
        repair = _repair(target, scoped, population, accountants)
    mechanism = target.mechanism(scoped.scope, population)
    if violated and mechanism is not None:
        holds = _what_holds(mechanism, scoped.claim.epsilon)
    if holds is not None:
        notes.append(
            f"What does hold at the claimed epsilon is delta = {holds:.4g}, exactly: up to that "
            "probability the promise fails."
        )
    if accounted is not None and math.isinf(accounted.epsilon):
        reason = target.unproved
        if not reason:
            reason = why_infinite(target.event(scoped.scope, population), scoped.delta)
        elif violated:
            reason = ""  # nobody is to look for a proof of it
        notes.append(f"No epsilon can be proved: {reason}" if reason else "")
    note = " ".join(filter(None, notes))
    return finding.model_copy(update={"note": note, "holds_at": holds, "repair": repair})


def judge_all(
    target: Claimant, population: Population
) -> tuple[tuple[Bound, ...], tuple[Finding, ...]]:
    """The exact bounds of a target, and all its scoped claims judged by them and by proofs."""
    exact, accountants = exact_bounds(target, population), all_accountants()
    return exact, tuple(
        evaluate(target, scoped, population, exact=exact, accountants=accountants)
        for scoped in target.scoped_claims(population)
    )


def _largest_lower_bound(
    scoped: ScopedClaim,
    accounted: Bound | None,
    exact: Sequence[Bound],
    sampled: Sequence[Bound],
    alarms: Sequence[Bound],
) -> Bound | None:
    """The largest lower bound that speaks to a claim, or an alarm that refutes its proof."""

    def speaking(bounds: Sequence[Bound]) -> list[Bound]:
        return [
            bound
            for bound in bounds
            if scoped.scope.covers(bound.scope) and bound.delta >= scoped.delta
        ]

    contradictions = [
        b
        for b in speaking(alarms)
        if accounted is not None
        and not (b.assumptions or accounted.assumptions)
        and refutes(b, accounted)
    ]
    sure = accounted is not None and math.isfinite(accounted.epsilon)
    known = speaking(exact)
    settled = [e for e in known if e.tight or sure]
    unknown = [
        b
        for b in speaking(sampled)
        if not any(e.scope.covers(b.scope) and e.delta <= b.delta for e in settled)
    ]
    return max(
        contradictions or [*known, *unknown],
        key=lambda bound: (not bound.assumptions, bound.epsilon, bound.scope == scoped.scope),
        default=None,
    )


def without_refuted_proofs(
    findings: Iterable[Finding], proof_of: Callable[[str, Bound], Bound | None]
) -> tuple[Finding, ...]:
    """The findings, judged again without the proofs whose assumptions a finding refutes.

    A lower bound above a proof shows that what the proof assumes is not so, all of it together. So
    every proof of that system which assumes as much falls, in whatever scope. ``proof_of`` a
    system's name and a lower bound is what can be proved where that one was measured: of a round,
    say, that no claim speaks of, in which more is shown than was assumed of it.
    """
    findings = tuple(findings)
    shown = dict.fromkeys((each.target, each.shown) for each in findings)
    proofs = [(each.target, each.accounted) for each in findings]
    refuted = [
        (target, set(upper.assumptions), lower)
        for target, lower in shown
        if lower is not None
        for upper in (proof_of(target, lower), *(p for name, p in proofs if name == target))
        if upper is not None and refutes_assumptions(lower, upper)
    ]

    def left(finding: Finding) -> Finding:
        for target, assumptions, lower in refuted:
            proof = finding.accounted
            if proof is None or target != finding.target:
                continue
            if assumptions <= set(proof.assumptions):
                return finding.without_proof(
                    f"The proof of {proof.epsilon:.6g} does not hold: it is not so that "
                    f"{'; '.join(sorted(assumptions))}, by the lower bound {lower.epsilon:.6g} in "
                    f"[{lower.scope}]."
                )
        return finding

    return tuple(map(left, findings))


def with_untested(
    findings: Sequence[Finding], skipped: Sequence[SkippedRow], of_others: Mapping[str, str]
) -> tuple[Finding, ...]:
    """The findings; those that nothing tested say why, see ``Finding.untested``.

    A system ``of_others`` is tested by games only: a claim with no measured bound in its scope
    could not have been refuted, for the reason in ``skipped``, or else the one given here. A claim
    of a training, of any system, is tested where trainings enough were simulated to refute it as
    often as not, had twice as much been spent.
    """
    return tuple(_with_untested(finding, findings, skipped, of_others) for finding in findings)


def _with_untested(
    finding: Finding,
    findings: Sequence[Finding],
    skipped: Sequence[SkippedRow],
    of_others: Mapping[str, str],
) -> Finding:
    if finding.verdict is not Verdict.UNSUBSTANTIATED:
        return finding
    measured = [
        other.measured
        for other in findings
        if other.target == finding.target
        and other.measured is not None
        and finding.scope.covers(other.measured.scope)
    ]
    if not measured and finding.target in of_others:
        reasons = [row.reason for row in skipped if row.target == finding.target]
        reason = " ".join(dict.fromkeys(reasons)) or of_others[finding.target]
        why = f"Nothing tested the claim: {reason}"
    else:
        why = too_few_trainings(finding.claim, measured)
    return finding if not why else finding.model_copy(update={"untested": why}).judged_again()


def _what_holds(mechanism: Mechanism, epsilon: float) -> float | None:
    """The delta at which a violated epsilon does hold, where it can be computed exactly."""
    known = mechanism.worst_case()
    if known is not None and known.copies > _MOST_COPIES:
        return None
    try:
        return delta_at(mechanism, epsilon)
    except InputError:
        return None


def _repair(
    target: Claimant, scoped: ScopedClaim, population: Population, accountants: Sequence[Accountant]
) -> str:
    """The settings that its papers know to repair a system, if the same claim is then proved."""
    known = {
        settings_words(entry.repaired).removeprefix("--set "): entry.repaired
        for paper in papers().values()
        for entry in paper.entries
        if target.name in entry.system
        and entry.repaired
        and _OF_THE_WORLD.isdisjoint(entry.repaired)
        and all(hasattr(target, name) for name in entry.repaired)
    }
    for words, settings in known.items():
        mended = settled(target, settings, target.name)
        for again in mended.scoped_claims(population):
            asked = (again.scope, again.delta, again.claim.scope)
            larger = exceeds(again.claim.epsilon, scoped.claim.epsilon)
            if larger or asked != (scoped.scope, scoped.delta, scoped.claim.scope):
                continue
            proof = least_upper_bound(mended, again.scope, population, again.delta, accountants)
            judged = Finding.of(
                target.name, again.claim, again.scope, delta=again.delta, accounted=proof
            )
            if judged.verdict is Verdict.CONSISTENT:
                return words
    return ""
