"""Advice on a system, as specific as the record is: what is wrong first, then the remedy."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from fedrec_auditor.accountants.statements import Bound, Scope
from fedrec_auditor.accountants.verdict import Verdict, promises_little
from fedrec_auditor.reports import say
from fedrec_auditor.reports.record.rows import Finding
from fedrec_auditor.reports.record.sections import Section

_ANYBODY = 1e-5
"""The largest delta that is advised where the number of users is not known."""


def next_step(section: Section, *, leaks: bool, alarms: Sequence[str] = (), gap: str = "") -> str:
    """The repaired setting, the scope to quote, the epsilon that may be claimed instead.

    ``leaks`` says that an attack beat guessing, for a system whose claim was not judged. ``alarms``
    are sentences on what is wrong beside the claim: only a refuted claim comes before them. ``gap``
    is what was not assessed.
    """
    finding, open_ = section.headline_finding, [f"Not assessed: {gap}."] if gap else []
    if finding is None:
        said = say.fill_phrase("advice", "as-data" if leaks else "state")
        return " ".join((*alarms, said, *open_))
    if finding.verdict is Verdict.UNSOUND:
        return say.fill_phrase("advice", "bug")
    said, reach = _TODO[finding.verdict](section, finding), _reach(section, finding)
    wrong = [*alarms, *reach]
    parts = [said, *wrong] if finding.verdict is Verdict.VIOLATED else [*wrong, said]
    if section.quick and "claim epsilon" in said.lower():
        parts.append(say.fill_phrase("advice", "quick"))
    return say.listed(*parts, *open_, by=" ")


def _proved(section: Section, finding: Finding) -> Bound | None:
    """The proof in the finding's scope, for all users of the data, at a delta that may be claimed.

    A delta may be one of the claim's, or as small as 1 / users: at a larger one the promise may
    fail for somebody.
    """
    largest = max(finding.claim.delta, 1.0 / section.users if section.users else _ANYBODY)
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


def _statement(proof: Bound, scope: Scope, epsilon: str = "", instead: str = "") -> str:
    """An epsilon with all without which it is no promise, ``instead`` of another."""
    at = f" at {say.delta_words(proof.delta)}" if proof.delta else ""
    at += f" instead of {instead}," if instead else ""
    words = (
        f"epsilon {epsilon or say.at_most(proof.epsilon)}{at} for {say.UNITS[scope.unit]} "
        f"({say.ADJACENCIES[scope.adjacency]})",
        say.HORIZONS[scope.horizon],
        say.VIEWS[scope.vantage],
        say.assumption_words(proof),
    )
    return say.listed(*words)


def _shorter(held: Finding, refuted: Finding) -> bool:
    """Whether a claim of the same epsilon is upheld for the same unit and view, for less time."""
    one, other = held.scope, refuted.scope
    return (
        held.verdict is Verdict.CONSISTENT
        and not held.game
        and (held.claim.epsilon, held.delta) == (refuted.claim.epsilon, refuted.delta)
        and (one.unit, one.adjacency, one.vantage) == (other.unit, other.adjacency, other.vantage)
        and other.covers(one)
        and one.horizon is not other.horizon
    )


def _ways(section: Section, finding: Finding) -> Iterator[str]:
    """Repairs with which the claim holds, and claims instead of it, the most useful first."""
    for held in section.findings:
        if _shorter(held, finding):
            yield f"quote it {say.HORIZONS[held.scope.horizon]} only, where it is proved"
            break
    repaired = finding.repair or next(
        (f.repair for f in section.findings if f.scope == finding.scope and f.repair), ""
    )
    if repaired:
        yield f"set {repaired}, with which it is proved"
    proof = _proved(section, finding)
    if proof is not None and not promises_little(proof):
        refuted = finding.verdict is Verdict.VIOLATED
        instead = say.brief(finding.claim.epsilon) if refuted else ""
        yield f"claim {_statement(proof, finding.scope, instead=instead)}"
    elsewhere = next((f for f in section.violated if f.repair), None)
    if elsewhere is not None and not repaired:
        one, other = elsewhere.scope, finding.scope
        for_one = f"{_apart(one, other)}, though not {_apart(other, one)}"
        yield f"set {elsewhere.repair}, with which it is proved {for_one}"


def _of_violated(section: Section, finding: Finding) -> str:
    ways = ["withdraw the claim", *_ways(section, finding)]
    delta = finding.holds_at
    if delta is not None and section.users and delta < 1.0 / section.users:
        small = say.at_most(delta)
        ways.append(f"state delta {small} with it, the probability that its promise fails")
    return _or(ways) + _proved_at_all(section, finding)


def _of_unproved(section: Section, finding: Finding) -> str:
    ways = list(_ways(section, finding)) or ["claim none"]
    proof = f"bring the missing proof of {say.brief(finding.claim.epsilon)}"
    return _or([*ways, proof]) + _proved_at_all(section, finding)


def _or(ways: Sequence[str]) -> str:
    return f"{say.capitalized(', or '.join(ways))}."


def _proved_at_all(section: Section, finding: Finding) -> str:
    """Why no epsilon is offered to claim, and how a system of one's own gets one."""
    proof = _proved(section, finding)
    if proof is not None:
        most = say.at_most(proof.epsilon)
        little = f" The epsilon that is proved, {most}, promises next to nothing."
        return little if promises_little(proof) else ""
    if not section.own or (finding.shown is not None and math.isinf(finding.shown.epsilon)):
        return ""
    return f" {say.fill_phrase('advice', 'proof')}"


def _of_upheld(section: Section, finding: Finding) -> str:
    claim, proof = finding.claim.epsilon, _proved(section, finding)
    little = f"Lower epsilon: {say.brief(claim)} promises next to nothing"
    if proof is not None and proof.epsilon < 0.9 * claim:
        if promises_little(proof):
            return f"{little}, and so does the proof."
        return f"You may claim {_statement(proof, finding.scope, instead=say.brief(claim))}."
    if finding.vacuous:
        return f"{little}."
    if proof is None:
        return "Quote the claim only together with its scope and its delta."
    said = _statement(proof, finding.scope, say.proved_of(finding))
    return f"Quote the claim only as a whole: {said}."


def _reach(section: Section, finding: Finding) -> Iterator[str]:
    """Scope of which the claim does not speak, with the widest leak there."""
    reach = section.reach
    if reach is None or reach is finding or not (reach.shown or reach.accounted):
        return
    proof, where = reach.accounted, _apart(reach.scope, finding.scope)
    if proof is None or math.isinf(proof.epsilon):
        known = "no finite epsilon is proved"
        if reach.shown is not None:
            known = f"epsilon is {say.shown_epsilon(reach.shown.epsilon)}"
        yield f"Claim nothing {where}: {known}."
        return
    if proof.epsilon <= finding.claim.epsilon:
        return
    proved = f"{say.at_most(proof.epsilon)} is proved"
    if assumed := say.assumption_words(proof):
        proved += f", {assumed}"
    shown = "" if reach.shown is None else f"at least {say.brief(reach.shown.epsilon)} is shown, "
    yield f"Do not read the claim as one {where}: epsilon there is another ({shown}{proved})."


def _apart(scope: Scope, other: Scope) -> str:
    """The parts of a scope that the other does not have, in words."""
    words, others = (
        (say.UNITS[each.unit], say.HORIZONS[each.horizon], say.VIEWS[each.vantage])
        for each in (scope, other)
    )
    apart = [one for one, theirs in zip(words, others, strict=True) if one != theirs]
    named = ", ".join(apart) or say.ADJACENCIES[scope.adjacency]
    return f"for {named}" if not apart or apart[0] == words[0] else named


def _of_unclaimed(section: Section, finding: Finding) -> str:
    proof = _proved(section, finding)
    if proof is not None and not promises_little(proof):
        return f"You may claim {_statement(proof, finding.scope)}."
    return say.fill_phrase("advice", "as-data") + _proved_at_all(section, finding)


def _of_untested(section: Section, finding: Finding) -> str:
    return say.fill_phrase("advice", "test" if finding.measured is None else "more")


_TODO: dict[Verdict, Callable[[Section, Finding], str]] = {
    Verdict.VIOLATED: _of_violated,
    Verdict.INCONCLUSIVE: _of_untested,
    Verdict.UNSUBSTANTIATED: _of_unproved,
    Verdict.CONSISTENT: _of_upheld,
    Verdict.NO_CLAIM: _of_unclaimed,
    Verdict.INCOMPARABLE: lambda *_: say.fill_phrase("advice", "scope"),
}
