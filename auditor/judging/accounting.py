"""Judges a system's claims without running the system, by proved upper bounds and exact lower
bounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from fedrec_auditor.accountants.crosscheck import cross_check
from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.losses.pure import explain_infinite_epsilon
from fedrec_auditor.accountants.methods.base import Accountant
from fedrec_auditor.accountants.statements import Bound, Scope, Vantage
from fedrec_auditor.accountants.verdict import Verdict, exceeds, refutes, refutes_assumptions
from fedrec_auditor.auditor.plan.families import FAMILIES, load_papers
from fedrec_auditor.reports.record.rows import Finding, SkippedRow
from fedrec_auditor.reports.say import format_settings
from fedrec_auditor.targets.mechanisms.base import Mechanism
from fedrec_auditor.targets.systems.base import Claimant, Population, ScopedClaim

if TYPE_CHECKING:
    from dp_accounting import DpEvent

# Settings that no repair may change: the length of the training, and the behaviour of other clients
# and of the server.
_FIXED_SETTINGS = frozenset({"rounds", "colluding", "overstated", "dropout"})
# Largest number of copies of a mechanism for which the exact delta is computed. More copies take
# minutes.
_MAX_COPIES = 10**10


def list_accountants() -> tuple[Accountant, ...]:
    """Returns one instance of every accountant (method that proves upper bounds on epsilon).

    The simplest ("pure") comes first, because the first of equal bounds is used.
    """
    family = FAMILIES["accountants"]
    names = sorted(family.list_names(), key=lambda name: (name != "pure", name))
    return tuple(family.load_class(name)() for name in names)


def find_upper_bound(
    target: Claimant,
    scope: Scope,
    population: Population,
    delta: float,
    accountants: Sequence[Accountant],
) -> Bound | None:
    """Computes the smallest epsilon at ``delta`` that any accountant proves for ``target`` in
    ``scope``.

    ``target``: the system.
    ``scope``: unit, adjacency, what the adversary sees, and duration.
    ``population``: numbers of users and items.
    ``delta``: delta of the bound.
    ``accountants``: accountants to use.

    Returns None if no accountant supports any of the mechanisms. Raises AuditError if the upper
    bound is smaller than an independent lower bound.
    """
    # A bound against a stronger adversary also holds in ``scope``.
    vantages = (replace(scope, vantage=vantage) for vantage in Vantage)
    events = [target.get_event(wider, population) for wider in vantages if wider.covers(scope)]
    different = [event for place, event in enumerate(events) if event not in events[:place]]
    bounds = [find_event_bound(event, scope, delta, accountants) for event in different]
    least = _find_least([bound for bound in bounds if bound is not None])
    if least is not None and target.assumes:
        least = replace(least, assumptions=(*least.assumptions, *target.assumes))
    return least


def find_event_bound(
    event: DpEvent, scope: Scope, delta: float, accountants: Sequence[Accountant]
) -> Bound | None:
    """Computes the smallest upper bound on the epsilon of an accounting event (composition of
    mechanisms).

    ``event``: the event.
    ``scope``: scope (unit, adjacency, adversary, duration) that the bound states.
    ``delta``: delta of the bound.
    ``accountants``: accountants to use.

    Returns None if no accountant supports the event. Raises AuditError if a bound is smaller than
    an independent lower bound.
    """
    able = (accountant for accountant in accountants if accountant.supports(event))
    bounds = [accountant.bound(event, delta=delta, scope=scope) for accountant in able]
    # The independent lower bound is compared only if it can be computed fast.
    cross_check(event, bounds)
    return _find_least(bounds)


def _find_least(bounds: Sequence[Bound]) -> Bound | None:
    """First of the ``bounds`` whose epsilon is the smallest up to rounding; None if there are no
    bounds.
    """
    least = min((bound.epsilon for bound in bounds), default=math.inf)
    return next((bound for bound in bounds if not exceeds(bound.epsilon, least)), None)


def compute_exact_bounds(
    target: Claimant, population: Population, scoped: ScopedClaim | None = None
) -> tuple[Bound, ...]:
    """Computes exact lower bounds for the claims of a system whose mechanism is known, each at the
    delta of the claim.

    ``population``: numbers of users and items for which claims are computed.
    ``scoped``: the only claim for which bounds are computed; None for all claims of the system.

    At delta > 0 a bound exists only if the mechanism has finitely many outputs or a privacy curve.
    """
    questions = list(dict.fromkeys((q.scope, q.delta) for q in target.get_claims(population)))
    if scoped is None:
        return _find_exact_bounds(target, population, questions)
    # A single claim has a bound in its own scope or, if this does not exist, bounds in scopes that
    # it covers.
    within = [(s, d) for s, d in questions if scoped.scope.covers(s) and d >= scoped.delta]
    own = _find_exact_bounds(target, population, [(scoped.scope, scoped.delta)])
    return own or _find_exact_bounds(target, population, within)


def _find_exact_bounds(
    target: Claimant, population: Population, questions: Iterable[tuple[Scope, float]]
) -> tuple[Bound, ...]:
    from fedrec_auditor.auditor.exact import find_exact_bound, has_exact_bound

    mechanisms = ((target.get_mechanism(s, population), s, delta) for s, delta in questions)
    return tuple(
        find_exact_bound(mechanism, scope, delta)
        for mechanism, scope, delta in mechanisms
        if mechanism is not None and has_exact_bound(mechanism, delta)
    )


def judge_scoped_claim(
    target: Claimant,
    scoped: ScopedClaim,
    population: Population,
    *,
    exact_bounds: Sequence[Bound],
    sampled_bounds: Sequence[Bound] = (),
    alarm_bounds: Sequence[Bound] = (),
    accountants: Sequence[Accountant],
) -> Finding:
    """Judges one claim by the smallest upper bound and the largest lower bound on epsilon that
    apply to it.

    - ``target``: the system.
    - ``scoped``: its claim in a scope (unit, adjacency, what the adversary sees, duration).
    - ``population``: numbers of users and items.
    - ``exact_bounds``: exact lower bounds.
    - ``sampled_bounds``: measured lower bounds.
    - ``alarm_bounds``: measured lower bounds at the much higher confidence ``ALARM_CONFIDENCE``, at
      which a measurement contradicts a proof.
    - ``accountants``: accountants that prove the upper bound.

    Lower bounds at a smaller delta than the claim's do not count. Bounds with assumptions count
    only if there are no others. Measured bounds do not count if a conclusive exact bound covers
    their scope.
    """
    accounted = find_upper_bound(target, scoped.scope, population, scoped.delta, accountants)
    bounds = exact_bounds, sampled_bounds, alarm_bounds
    finding = Finding.from_bounds(
        target.name,
        scoped.claim,
        scoped.scope,
        delta=scoped.delta,
        accounted=accounted,
        measured=_find_lower_bound(scoped, accounted, *bounds),
        sizes=replace(target.sizes, items=population.n_items),
        note=scoped.note,
        outside_model=scoped.unstated_quantity,
    )
    notes, holds, repair = [scoped.note], None, ""
    violated = finding.verdict is Verdict.VIOLATED
    if violated or finding.verdict is Verdict.UNSUBSTANTIATED:
        repair = _find_repair(target, scoped, population, accountants)
    mechanism = target.get_mechanism(scoped.scope, population)
    if violated and mechanism is not None:
        holds = _find_exact_delta(mechanism, scoped.claim.epsilon)
    if holds is not None:
        notes.append(
            f"At the claimed epsilon the exact delta is {holds:.4g}: the claim may fail with a "
            "probability of up to this delta."
        )
    if accounted is not None and math.isinf(accounted.epsilon):
        reason = target.unproved_reason
        if not reason:
            event = target.get_event(scoped.scope, population)
            reason = explain_infinite_epsilon(event, scoped.delta)
        elif violated:
            reason = ""  # a refuted claim has no proof
        notes.append(f"No finite epsilon can be proved: {reason}" if reason else "")
    note = " ".join(filter(None, notes))
    return finding.model_copy(update={"note": note, "holds_at": holds, "repair": repair})


def judge_claims(
    target: Claimant, population: Population
) -> tuple[tuple[Bound, ...], tuple[Finding, ...]]:
    """Judges all claims of a system by proofs and by exact lower bounds, without running the
    system.

    ``population``: numbers of users and items.

    Returns the exact lower bounds, and one judgement per claim.
    """
    exact, accountants = compute_exact_bounds(target, population), list_accountants()
    return exact, tuple(
        judge_scoped_claim(target, scoped, population, exact_bounds=exact, accountants=accountants)
        for scoped in target.get_claims(population)
    )


def _find_lower_bound(
    scoped: ScopedClaim,
    accounted: Bound | None,
    exact: Sequence[Bound],
    sampled: Sequence[Bound],
    alarms: Sequence[Bound],
) -> Bound | None:
    """Largest lower bound that applies to a claim; None if there is no such bound.

    ``accounted``: upper bound that an accountant proves, or None.
    ``alarms``: measured bounds at the confidence at which a measurement contradicts a proof.
    """

    def applying(bounds: Sequence[Bound]) -> list[Bound]:
        return [b for b in bounds if scoped.scope.covers(b.scope) and b.delta >= scoped.delta]

    # Alarms that refute the proved bound replace all other lower bounds.
    contradictions = [
        b
        for b in applying(alarms)
        if accounted is not None
        and not (b.assumptions or accounted.assumptions)
        and refutes(b, accounted)
    ]
    is_proved = accounted is not None and math.isfinite(accounted.epsilon)
    applicable = applying(exact)
    # Only by chance could a measured bound exceed an exact bound that is tight, or any exact bound
    # if a finite epsilon is proved.
    conclusive = [e for e in applicable if e.tight or is_proved]
    remaining = [
        b
        for b in applying(sampled)
        if not any(e.scope.covers(b.scope) and e.delta <= b.delta for e in conclusive)
    ]
    return max(
        contradictions or [*applicable, *remaining],
        # Bounds with assumptions count only if there is no bound without assumptions.
        key=lambda bound: (not bound.assumptions, bound.epsilon, bound.scope == scoped.scope),
        default=None,
    )


def drop_refuted_proofs(
    findings: Iterable[Finding], find_proof: Callable[[str, Bound], Bound | None]
) -> tuple[Finding, ...]:
    """Judges claims again, without proofs whose assumptions are refuted by a lower bound of the
    system.

    - ``findings``: the judgements, each with its claim, proof and lower bound.
    - ``find_proof``: function that takes the name of a system and a lower bound. It returns the
      proof in the scope (unit, adjacency, adversary, duration) of the lower bound, or None.
    """
    findings = tuple(findings)
    shown = dict.fromkeys((each.target, each.lower_bound) for each in findings)
    proofs = [(each.target, each.accounted) for each in findings]
    # A lower bound above a proved upper bound shows that the assumptions of the proof do not all
    # hold. Therefore all proofs of the system that make at least these assumptions are dropped, in
    # every scope. Lower bounds may have scopes without a judgement, for example one round, if
    # claims are about trainings only.
    refuted = [
        (target, set(upper.assumptions), lower)
        for target, lower in shown
        if lower is not None
        for upper in (find_proof(target, lower), *(p for name, p in proofs if name == target))
        if upper is not None and refutes_assumptions(lower, upper)
    ]

    def without_proof(finding: Finding) -> Finding:
        """Judgement without its proof, if the assumptions of the proof are refuted."""
        for target, assumptions, lower in refuted:
            proof = finding.accounted
            if proof is None or target != finding.target:
                continue
            if assumptions <= set(proof.assumptions):
                return finding.drop_proof(
                    f"The proof of epsilon {proof.epsilon:.6g} does not hold: the lower bound "
                    f"{lower.epsilon:.6g} in [{lower.scope}] refutes its assumptions, namely that "
                    f"{' and '.join(sorted(assumptions))}."
                )
        return finding

    return tuple(map(without_proof, findings))


def mark_untested(
    findings: Sequence[Finding], skipped: Sequence[SkippedRow], other_reasons: Mapping[str, str]
) -> tuple[Finding, ...]:
    """Sets the field ``untested`` of judgements: the reason why no measurement could have refuted
    the claim.

    The field is set if the claim is neither refuted nor proved, in two cases:

    - Only games can test the system, and no bound was measured in the scope of the claim.
    - The claim is on a training, and too few trainings were simulated.

    ``findings``: all judgements of an audit.
    ``skipped``: games (simulated experiments) that were not run, with reasons.
    ``other_reasons``: reason to state if ``skipped`` has none, by name of each system that only
        games can test.
    """
    return tuple(_set_untested(finding, findings, skipped, other_reasons) for finding in findings)


def _set_untested(
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
        why = f"No game tested the claim: {reason}"
    else:
        from fedrec_auditor.auditor.worlds.measure import explain_too_few_trainings

        # The number of trainings is enough if about half of all audits would refute the claim at a
        # true epsilon of twice the claim.
        why = explain_too_few_trainings(finding.claim, measured)
    return finding if not why else finding.model_copy(update={"untested": why}).judge_again()


def _find_exact_delta(mechanism: Mechanism, epsilon: float) -> float | None:
    """Exact delta of ``mechanism`` at a claimed ``epsilon`` that is refuted; None if it cannot be
    computed.
    """
    from fedrec_auditor.auditor.exact import compute_delta

    known = mechanism.worst_case()
    if known is not None and known.n_copies > _MAX_COPIES:
        return None
    try:
        return compute_delta(mechanism, epsilon)
    except InputError:
        return None


def _find_repair(
    target: Claimant, scoped: ScopedClaim, population: Population, accountants: Sequence[Accountant]
) -> str:
    """Settings with which the claim of a system is proved, as text; empty if there are none.

    The tried settings are the repairs in the catalogue of papers' claims, except repairs of
    ``_FIXED_SETTINGS``.
    """
    from fedrec_auditor.auditor.plan.objects import apply_settings

    known = {
        format_settings(entry.repaired).removeprefix("--set "): entry.repaired
        for paper in load_papers().values()
        for entry in paper.entries
        if target.name in entry.system
        and entry.repaired
        and _FIXED_SETTINGS.isdisjoint(entry.repaired)
        and all(hasattr(target, name) for name in entry.repaired)
    }
    for words, settings in known.items():
        mended = apply_settings(target, settings, target.name)
        for again in mended.get_claims(population):
            asked = (again.scope, again.delta, again.claim.scope)
            larger = exceeds(again.claim.epsilon, scoped.claim.epsilon)
            if larger or asked != (scoped.scope, scoped.delta, scoped.claim.scope):
                continue
            proof = find_upper_bound(mended, again.scope, population, again.delta, accountants)
            judged = Finding.from_bounds(
                target.name, again.claim, again.scope, delta=again.delta, accounted=proof
            )
            if judged.verdict is Verdict.CONSISTENT:
                return words
    return ""
