"""Advice on a system, derived from the record of its audit: first problems, then remedies."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from fedrec_auditor.accountants.statements import Bound, Scope
from fedrec_auditor.accountants.verdict import Verdict, is_vacuous
from fedrec_auditor.reports import say
from fedrec_auditor.reports.record.rows import Finding
from fedrec_auditor.reports.record.sections import Section

# Largest delta that advice suggests for a claim if the number of users is unknown.
_ANYBODY = 1e-5


def advise(section: Section, *, leaks: bool, alarms: Sequence[str] = (), gap: str = "") -> str:
    """Writes advice on a system: a repair, the scope to quote, or an epsilon to claim.

    section: all rows of the audit's record on the system.
    leaks: whether an attack beat guessing; used only if no claim was judged.
    alarms: sentences on other problems. They come before the advice, or after it if the claim is
        refuted.
    gap: text on the parts that were not assessed; empty if there are none.
    """
    finding, open_ = section.headline_finding, [f"Not assessed: {gap}."] if gap else []
    if finding is None:
        return " ".join((*alarms, say.fill_text("advice", "as-data" if leaks else "state"), *open_))
    if finding.verdict is Verdict.UNSOUND:
        return say.fill_text("advice", "bug")
    advice, reach = _TODO[finding.verdict](section, finding), _warn_of_reach(section, finding)
    wrong = [*alarms, *reach]
    parts = [advice, *wrong] if finding.verdict is Verdict.VIOLATED else [*wrong, advice]
    if section.is_quick and "claim epsilon" in advice.lower():
        parts.append(say.fill_text("advice", "quick"))
    return say.join_texts(*parts, *open_, by=" ")


def _find_proof(section: Section, finding: Finding) -> Bound | None:
    """Returns the upper bound that may be claimed in the finding's scope for all users, or None."""
    # Such a delta is at most the claim's delta or 1 / users: at a larger delta the claim may fail
    # for some user.
    largest = max(finding.claim.delta, 1.0 / section.n_users if section.n_users else _ANYBODY)
    proofs = [
        each.accounted
        for each in section.findings
        if each.scope == finding.scope and not each.game and each.accounted is not None
    ]
    return min(
        (p for p in proofs if math.isfinite(p.epsilon) and p.delta <= largest),
        key=lambda proof: (abs(proof.delta - finding.delta), proof.epsilon),
        default=None,
    )


def _describe(proof: Bound, scope: Scope, epsilon: str = "", instead: str = "") -> str:
    """Returns a phrase with an epsilon and its delta, scope, adjacency and assumptions."""
    # epsilon: the epsilon as text; by default that of ``proof``.
    # instead: the claimed epsilon that the phrase replaces; empty if none.
    at = f" at {say.format_delta(proof.delta)}" if proof.delta else ""
    at += f" (instead of {instead})" if instead else ""
    epsilon = f"epsilon {epsilon or say.format_ceil(proof.epsilon)}{at}"
    pair = f" (neighbouring inputs {say.ADJACENCY_TEXTS[scope.adjacency]})"
    words = f"{epsilon} for {say.describe_scope(scope)}{pair}"
    return say.join_texts(words, say.describe_assumptions(proof))


def _is_shorter(proved: Finding, refuted: Finding) -> bool:
    """Whether ``proved`` proves the refuted claim over less time, for its unit and vantage."""
    part, full = proved.scope, refuted.scope
    return (
        proved.verdict is Verdict.CONSISTENT
        and not proved.game
        and (proved.claim.epsilon, proved.delta) == (refuted.claim.epsilon, refuted.delta)
        and (part.unit, part.adjacency, part.vantage) == (full.unit, full.adjacency, full.vantage)
        and full.covers(part)
        and part.horizon is not full.horizon
    )


def _list_ways(section: Section, finding: Finding) -> Iterator[str]:
    """Yields phrases of advice on a claim that is refuted or not proved, the best first."""
    # Each names a repair of the system with which the claim holds, or another claim that holds.
    claimed = say.format_short(finding.claim.epsilon)
    for proved in section.findings:
        if _is_shorter(proved, finding):
            time = say.HORIZON_TEXTS[proved.scope.horizon]
            yield f"claim epsilon {claimed} only {time}, where it is proved"
            break
    repaired = finding.repair or next(
        (f.repair for f in section.findings if f.scope == finding.scope and f.repair), ""
    )
    if repaired:
        yield f"change the settings to {repaired}, with which the claim is proved"
    proof = _find_proof(section, finding)
    if proof is not None and not is_vacuous(proof):
        instead = claimed if finding.verdict is Verdict.VIOLATED else ""
        yield f"claim {_describe(proof, finding.scope, instead=instead)}"
    elsewhere = next((f for f in section.violated if f.repair), None)
    if elsewhere is not None and not repaired:
        there, here = elsewhere.scope, finding.scope
        scopes = f"{_contrast(there, here)}, but not {_contrast(here, there)}"
        yield f"change the settings to {elsewhere.repair}, with which the claim is proved {scopes}"


def _advise_violated(section: Section, finding: Finding) -> str:
    ways = ["withdraw the claim", *_list_ways(section, finding)]
    delta = finding.holds_at
    if delta is not None and section.n_users and delta < 1.0 / section.n_users:
        claimed, new = say.format_short(finding.claim.epsilon), say.format_ceil(delta)
        ways.append(f"keep epsilon {claimed}, but claim it at delta {new}")
    return _join_options(ways) + _explain_proof(section, finding)


def _advise_unproved(section: Section, finding: Finding) -> str:
    ways = list(_list_ways(section, finding)) or ["claim no epsilon"]
    proof = f"supply the missing proof of epsilon {say.format_short(finding.claim.epsilon)}"
    return _join_options([*ways, proof]) + _explain_proof(section, finding)


def _join_options(ways: Sequence[str]) -> str:
    options = (f"Option {i}: {way}." for i, way in enumerate(ways, 1))
    return " ".join(options) if len(ways) > 1 else f"{say.capitalize_first(ways[0])}."


def _explain_proof(section: Section, finding: Finding) -> str:
    """Returns a sentence on why no epsilon can be claimed, or on how to obtain one."""
    # Empty if there is nothing to add.
    proof = _find_proof(section, finding)
    if proof is not None:
        most = say.format_ceil(proof.epsilon)
        little = f" The proved epsilon, {most}, is so large that it guarantees almost nothing."
        return little if is_vacuous(proof) else ""
    bound = finding.lower_bound
    if not section.is_own or (bound is not None and math.isinf(bound.epsilon)):
        return ""
    return f" {say.fill_text('advice', 'proof')}"


def _advise_upheld(section: Section, finding: Finding) -> str:
    claim, proof = finding.claim.epsilon, _find_proof(section, finding)
    little = f"Reduce epsilon: an epsilon of {say.format_short(claim)} guarantees almost nothing"
    if proof is not None and proof.epsilon < 0.9 * claim:
        if is_vacuous(proof):
            return f"{little}, and the proved upper bound is too large as well."
        return f"You may claim {_describe(proof, finding.scope, instead=say.format_short(claim))}."
    if finding.vacuous:
        return f"{little}."
    if proof is None:
        return "Quote the claim only together with its scope and its delta."
    statement = _describe(proof, finding.scope, say.format_proved_epsilon(finding))
    return f"Quote the claim only with its whole scope: {statement}."


def _warn_of_reach(section: Section, finding: Finding) -> Iterator[str]:
    """Yields a warning if epsilon is larger in a scope that the claim does not cover."""
    reach = section.worst_incomparable_finding
    if reach is None or reach is finding or not (reach.lower_bound or reach.accounted):
        return
    proof, where = reach.accounted, _contrast(reach.scope, finding.scope)
    if proof is None or math.isinf(proof.epsilon):
        known = ": no finite epsilon is proved"
        if reach.lower_bound is not None:
            known = f", where epsilon is {say.describe_lower_bound(reach.lower_bound.epsilon)}"
        yield f"Do not claim any epsilon {where}{known}."
        return
    if proof.epsilon <= finding.claim.epsilon:
        return
    most, bound = say.format_ceil(proof.epsilon), reach.lower_bound
    least = "" if bound is None else say.format_floor(bound.epsilon)
    shown = f"at least {least} and " if least else ""
    known = f"{shown}proved to be at most {most}"
    known = f"{most} (both lower bound and proved upper bound)" if least == most else known
    known = say.join_texts(known, say.describe_assumptions(proof), by=" ")
    yield f"Do not use the claim {where}, where epsilon is {known}."


def _contrast(scope: Scope, other: Scope) -> str:
    """Names the parts of ``scope`` (unit, horizon, vantage) that differ from ``other``."""
    # If none of these differs, the adjacency in words.
    words, others = (
        (say.UNIT_TEXTS[x.unit], say.HORIZON_TEXTS[x.horizon], say.ADVERSARY_PHRASES[x.vantage])
        for x in (scope, other)
    )
    different = [text for text, second in zip(words, others, strict=True) if text != second]
    adjacency = say.ADJACENCY_TEXTS[scope.adjacency]
    named = ", ".join(different) or f"neighbouring inputs that {adjacency}"
    return f"for {named}" if not different or different[0] == words[0] else named


def _advise_unclaimed(section: Section, finding: Finding) -> str:
    proof = _find_proof(section, finding)
    if proof is not None and not is_vacuous(proof):
        return f"You may claim {_describe(proof, finding.scope)}."
    return say.fill_text("advice", "as-data") + _explain_proof(section, finding)


_TODO: dict[Verdict, Callable[[Section, Finding], str]] = {
    Verdict.VIOLATED: _advise_violated,
    Verdict.INCONCLUSIVE: lambda _, f: say.fill_text("advice", "more" if f.measured else "test"),
    Verdict.UNSUBSTANTIATED: _advise_unproved,
    Verdict.CONSISTENT: _advise_upheld,
    Verdict.NO_CLAIM: _advise_unclaimed,
    Verdict.INCOMPARABLE: lambda *_: say.fill_text("advice", "scope"),
}
