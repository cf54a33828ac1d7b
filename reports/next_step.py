"""What to do about a system, in a line or two, as specific as the record is."""

from __future__ import annotations

import math
from collections.abc import Callable

from fedrec_auditor.accountants.statements.scope import Scope
from fedrec_auditor.accountants.verdict import Verdict, promises_little
from fedrec_auditor.reports.rows import Finding
from fedrec_auditor.reports.section import Section
from fedrec_auditor.reports.words import (
    ADJACENCIES,
    HORIZONS,
    UNITS,
    VIEWS,
    assumption_words,
    at_most,
    brief,
    capitalized,
    delta_words,
    proved_of,
    shown_epsilon,
)

_AS_DATA = "Treat what leaves the devices as if it were the data: add noise, or do not deploy."


def next_step(section: Section, *, leaks: bool) -> str:
    """The repaired setting, the scope to quote, the epsilon that may be claimed instead.

    ``leaks`` says that an attack beat guessing, for a system whose claim was not judged.
    """
    finding = section.headline_finding
    if finding is None:
        return _AS_DATA if leaks else "Say what is claimed, to have it judged: --claim claim.toml."
    return _TODO[finding.verdict](section, finding)


def _proved(finding: Finding) -> str:
    """The least epsilon that is proved, or that none is."""
    proof = finding.accounted
    if proof is None or math.isinf(proof.epsilon):
        return "no finite epsilon is proved"
    under = " under assumptions" if proof.assumptions else ""
    return f"at most {proved_of(finding)} proved{under}"


def _sentence(text: str) -> str:
    return f"{capitalized(text)}."


def _claim_instead(finding: Finding) -> str:
    """The epsilon that is proved in the finding's scope, as what to claim; empty if none is."""
    proof = finding.accounted
    if proof is None or math.isinf(proof.epsilon) or finding.game:
        return ""
    at = f" at {delta_words(proof.delta)}" if proof.delta else ""
    return f"epsilon {proved_of(finding)}{at}"


def _if_so(finding: Finding) -> str:
    """What the finding's proof assumes, behind a comma."""
    assumed = assumption_words(finding.accounted)
    return f", {assumed}" if assumed else ""


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


def _of_violated(section: Section, finding: Finding) -> str:
    ways = []
    for held in section.findings:
        if _shorter(held, finding):
            ways.append(f"quote it {HORIZONS[held.scope.horizon]} only, where it is proved")
            break
    if finding.repair:
        ways.append(f"set {finding.repair}, with which the claim is proved")
    if instead := _claim_instead(finding):
        empty = finding.accounted is not None and promises_little(finding.accounted)
        little = ", which promises next to nothing" if empty else ""
        ways.append(
            f"claim {instead} instead of {brief(finding.claim.epsilon)}{little}{_if_so(finding)}"
        )
    elif finding.holds_at is not None and finding.holds_at < 0.99:
        ways += [] if ways else ["withdraw the claim"]
        ways.append(
            f"state delta {at_most(finding.holds_at)} with it, the probability that its promise "
            "fails"
        )
    elsewhere = next((f for f in section.violated if f.repair), None)
    if elsewhere is not None and not finding.repair:
        one, other = elsewhere.scope, finding.scope
        for_one = f"{_apart(one, other)}, though not {_apart(other, one)}"
        ways.append(f"set {elsewhere.repair}, with which the claim is proved {for_one}")
    if not ways:
        return f"Withdraw the claim: {_proved(finding)}."
    return _sentence(", or ".join(ways))


def _of_unproved(section: Section, finding: Finding) -> str:
    instead = _claim_instead(finding)
    missing = f"bring the missing proof of {brief(finding.claim.epsilon)}"
    instead += _if_so(finding) if instead else ""
    return _sentence(f"claim {instead}, or {missing}" if instead else f"claim none, or {missing}")


def _of_upheld(section: Section, finding: Finding) -> str:
    claim, proof = finding.claim.epsilon, finding.accounted
    said = []
    own = finding.scope == finding.claim.scope and not finding.game
    if proof is not None and own and proof.epsilon < 0.9 * claim:
        instead = _claim_instead(finding)
        said.append(f"You may claim {instead} instead of {brief(claim)}{_if_so(finding)}.")
    reach = section.reach
    if reach is not None and (reach.shown or reach.accounted):
        said.append(
            f"Say what it is for: {_apart(finding.scope, reach.scope).removeprefix('for ')}. "
            f"{capitalized(_apart(reach.scope, finding.scope))} {_known(reach)}."
        )
    if finding.vacuous and not said:
        said.append(f"Lower epsilon: {brief(claim)} promises next to nothing.")
    return " ".join(said) or "Quote the claim only together with its scope and its delta."


def _apart(scope: Scope, other: Scope) -> str:
    """What of a scope is not the other's, in words."""
    words = (UNITS[scope.unit], HORIZONS[scope.horizon], VIEWS[scope.vantage])
    others = (UNITS[other.unit], HORIZONS[other.horizon], VIEWS[other.vantage])
    apart = [one for one, theirs in zip(words, others, strict=True) if one != theirs]
    named = ", ".join(apart) or ADJACENCIES[scope.adjacency]
    return f"for {named}" if not apart or apart[0] == words[0] else named


def _known(finding: Finding) -> str:
    if finding.shown is not None:
        return f"epsilon is {shown_epsilon(finding.shown.epsilon)}"
    return _proved(finding)


def _of_unclaimed(section: Section, finding: Finding) -> str:
    instead = _claim_instead(finding)
    if instead and finding.accounted is not None and not promises_little(finding.accounted):
        return f"You may claim {instead}{_if_so(finding)}."
    return _AS_DATA


def _of_untested(section: Section, finding: Finding) -> str:
    if finding.measured is None:
        return (
            "Have the claim tested: play another game (--games), mend what kept this one, or, of a "
            "recording, audit the client (auditor run MODULE:OBJECT)."
        )
    return "Draw more (--runs, no --quick): so small a sample could not refute the claim."


_TODO: dict[Verdict, Callable[[Section, Finding], str]] = {
    Verdict.UNSOUND: lambda *_: "Use no number of this report, and report a bug of the auditor.",
    Verdict.VIOLATED: _of_violated,
    Verdict.INCONCLUSIVE: _of_untested,
    Verdict.UNSUBSTANTIATED: _of_unproved,
    Verdict.CONSISTENT: _of_upheld,
    Verdict.NO_CLAIM: _of_unclaimed,
    Verdict.INCOMPARABLE: lambda *_: "Audit the claim in its own scope.",
}
