"""An audit at a glance: a line a system, the worst first, and four figures over all systems."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from fedrec_auditor.accountants.statements.bound import Bound, guess_probability
from fedrec_auditor.accountants.statements.scope import Horizon, Scope, Unit, Vantage
from fedrec_auditor.accountants.verdict import VACUOUS_GUESS, Verdict, refutes
from fedrec_auditor.reports.anchor import anchors
from fedrec_auditor.reports.leaks import Leak, comparable, leaks
from fedrec_auditor.reports.rows import Contents, Finding
from fedrec_auditor.reports.section import Section, sections
from fedrec_auditor.reports.severity import (
    DISTINGUISHER,
    MUCH,
    SOME,
    Severity,
    claim_severity,
    leak_severity,
    most_won,
    severity_of,
    shown_bounds,
)
from fedrec_auditor.reports.words import (
    ADJACENCIES,
    CLAIMS,
    HORIZONS,
    UNITS,
    VIEWS,
    at_most,
    brief,
    brief_scope_words,
    capitalized,
    delta_words,
    flag_words,
    got_words,
    percent,
    shown_epsilon,
)

_FIRST = (Verdict.UNSOUND, Verdict.VIOLATED)
_UNPROVED = (Verdict.UNSUBSTANTIATED, Verdict.INCONCLUSIVE)
_TELLING = (
    "reconstruction",
    "attribute inference",
    "membership inference",
    "user-level membership inference",
    "linkage",
    DISTINGUISHER,
)
"""Families of attacks, from what a person would mind most; others come before the last."""


@dataclass(frozen=True, slots=True)
class Glance:
    """One system: ``anchor`` is the place of its page in the report.

    Of its ``rows`` of attacks that have a baseline, ``leaking`` beat it by the margin, corrected
    for all rows of the record, the most telling first.
    """

    section: Section
    anchor: str
    rows: int
    leaking: tuple[Leak, ...]

    @property
    def severity(self) -> Severity:
        """How bad, by the rule of ``severity``."""
        return severity_of(self.section, self.leaking)

    @property
    def leak_severity(self) -> Severity | None:
        """How bad what was learned is; None where nobody looked."""
        return leak_severity(self.section, self.leaking)

    @property
    def claim_severity(self) -> Severity:
        """How bad what became of the claim is."""
        return claim_severity(self.section.headline_finding)

    @property
    def learned(self) -> str:
        """How bad what was learned is, in a word or few."""
        level = self.leak_severity
        return "not looked for" if level is None else level.value.lower()

    @property
    def verdict(self) -> str:
        """What became of the claim, in a word or few."""
        finding = self.section.headline_finding
        if finding is None:
            return "not judged"
        flag = flag_words(finding) if finding.verdict is Verdict.CONSISTENT else ""
        return CLAIMS[finding.verdict] + (f", {flag}" if flag else "")

    @property
    def claim(self) -> str:
        """The numbers of the claim; empty where none was made or judged."""
        finding = self.section.headline_finding
        if finding is None or finding.verdict is Verdict.NO_CLAIM:
            return ""
        parts = [f"epsilon {brief(finding.claim.epsilon)} claimed"]
        if finding.verdict is not Verdict.VIOLATED:
            parts += [_proved(finding)]
        if finding.measured is not None:
            parts += [f"{shown_epsilon(finding.measured.epsilon)} shown{_how(finding)}"]
        return ", ".join(parts)

    @property
    def scope(self) -> str:
        """What the claim's numbers are for; empty where it has none."""
        finding = self.section.headline_finding
        if finding is None or not self.claim:
            return ""
        delta = delta_words(finding.delta) if finding.delta else ""
        parts = (brief_scope_words(finding.scope), finding.game, delta)
        return f"for {', '.join(filter(None, parts))}"

    @property
    def got(self) -> str:
        """What an attacker got, or that none got more than is guessed."""
        if self.leaking:
            return got_words(self.leaking[0].row)
        if self.rows:
            return f"no attack beat guessing (0 of {self.rows:,} figures)"
        return "no attack has a figure for guessing" if self.section.attacks else "no attack ran"

    @property
    def by(self) -> str:
        """The attack and the metric that got it; empty if none did."""
        row = self.leaking[0].row if self.leaking else None
        return "" if row is None else f"{row.attack}, {row.metric}"

    @property
    def shown(self) -> str:
        """The largest epsilon shown in any scope, where the claim's numbers do not tell it."""
        return "" if self._largest is None else f"epsilon shown: {_shown(self._largest)}"

    @property
    def todo(self) -> str:
        """What to do, in a line or two, as specific as the record is."""
        finding = self.section.headline_finding
        if finding is None:
            return "Give the system a claim, or audit it with another plan."
        return _TODO[finding.verdict](self.section, finding)

    @property
    def words(self) -> str:
        """The claim, what an attacker got and what to do, on one line."""
        claim = f"claim {self.verdict}" + (f": {self.claim}, {self.scope}" if self.claim else "")
        got = capitalized(self.got) + (f" ({self.by})" if self.by else "")
        return f"{claim}. {got}. To do: {self.todo}"

    @property
    def line(self) -> str:
        """All of it on one line, as a log and summary.md have it."""
        return f"{self.section.target}: {self.severity.value}; {self.words}"

    @property
    def _largest(self) -> Bound | None:
        """The largest lower bound in any scope, where it is more than the headline tells."""
        told = self.section.headline_finding
        quoted = told.measured if told is not None and self.claim else None
        largest = max(shown_bounds(self.section), key=lambda b: b.epsilon, default=None)
        if largest is None or (quoted is not None and largest.epsilon <= quoted.epsilon):
            return None
        return largest


@dataclass(frozen=True, slots=True)
class Share:
    """How many of all systems, and of what."""

    count: int
    of: int
    words: str


def glances(record: Contents) -> tuple[Glance, ...]:
    """The systems by severity; within it contradictions and refuted claims, then the most won."""
    rows = Counter(row.target for row in comparable(record))
    found, places = leaks(record), anchors(record)
    told = [
        Glance(
            section,
            places[section.target].page,
            rows[section.target],
            tuple(sorted((x for x in found if x.row.target == section.target), key=_telling)),
        )
        for section in sections(record)
    ]
    return tuple(sorted(told, key=_order))


def figures(record: Contents) -> tuple[Share, ...]:
    """How many claims are false, how many unproved, who leaks without one, who hides users."""
    seen = glances(record)
    verdicts = [
        None if (finding := each.section.headline_finding) is None else finding.verdict
        for each in seen
    ]
    counts = {
        "claims are false": sum(verdict is Verdict.VIOLATED for verdict in verdicts),
        "claim nothing, and an attack beats guessing": sum(
            verdict is Verdict.NO_CLAIM and bool(each.leaking)
            for verdict, each in zip(verdicts, seen, strict=True)
        ),
        "claims are unproved": sum(verdict in _UNPROVED for verdict in verdicts),
        "are proved to hide a whole user from the server over the training": sum(
            any(map(_hides, each.section.findings)) for each in seen
        ),
    }
    return tuple(Share(count, len(seen), words) for words, count in counts.items())


def _hides(finding: Finding) -> bool:
    """Whether no server tells any two users apart in 99.9% of all cases, and that is proved."""
    scope, proof = finding.scope, finding.accounted
    asked = (scope.unit, scope.vantage, scope.horizon)
    if proof is None or finding.game or asked != (Unit.USER, Vantage.SERVER, Horizon.TRAINING):
        return False
    refuted = finding.measured is not None and refutes(finding.measured, proof)
    return not refuted and guess_probability(proof.epsilon, proof.delta) < VACUOUS_GUESS


def _order(glance: Glance) -> tuple[int, int, float, float]:
    finding = glance.section.headline_finding
    tier = _FIRST.index(finding.verdict) if finding and finding.verdict in _FIRST else len(_FIRST)
    won = most_won(glance.leaking)
    shown = max((bound.epsilon for bound in shown_bounds(glance.section)), default=0.0)
    return glance.severity.place, tier, -won, -shown


def _telling(leak: Leak) -> tuple[bool, int, int, float]:
    """Attacks before the distinguisher, then by how much is won, in steps, then by what."""
    family = leak.row.family
    place = _TELLING.index(family) if family in _TELLING else len(_TELLING) - 1
    step = sum(leak.share >= limit for limit in (MUCH, SOME))
    return family == DISTINGUISHER, -step, place, -leak.share


def _sentence(text: str) -> str:
    return f"{capitalized(text)}."


def _how(finding: Finding) -> str:
    sure = 1.0 if finding.measured is None else finding.measured.confidence
    return " (calculated)" if sure == 1.0 else f" ({percent(sure)} confidence)"


def _shown(bound: Bound) -> str:
    scope = bound.scope
    return f"{shown_epsilon(bound.epsilon)} for {UNITS[scope.unit]}, {VIEWS[scope.vantage]}"


def _proved(finding: Finding) -> str:
    proof = finding.accounted
    if proof is None or math.isinf(proof.epsilon):
        return "no finite epsilon can be proved"
    under = " under assumptions" if proof.assumptions else ""
    return f"at most {at_most(proof.epsilon)} proved{under}"


def _claim_instead(finding: Finding) -> str:
    """The epsilon that is proved in the finding's scope, as what to claim; empty if none is."""
    proof = finding.accounted
    if proof is None or math.isinf(proof.epsilon) or finding.game:
        return ""
    at = f" at {delta_words(proof.delta)}" if proof.delta else ""
    return f"epsilon {at_most(proof.epsilon)}{at}"


def _if_so(finding: Finding) -> str:
    """What the finding's proof assumes, behind a comma."""
    proof = finding.accounted
    return f", if {'; '.join(proof.assumptions)}" if proof is not None and proof.assumptions else ""


def _vacuous(proof: Bound) -> bool:
    return guess_probability(proof.epsilon, proof.delta) >= VACUOUS_GUESS


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
    mended = next((f for f in (finding, *section.violated) if f.repair), None)
    if mended is not None:
        other = mended.scope.unit is not finding.scope.unit
        what = f" for {UNITS[mended.scope.unit]}" if other else ""
        ways.append(f"set {mended.repair}, with which the claim is proved{what}")
    if instead := _claim_instead(finding):
        empty = finding.accounted is not None and _vacuous(finding.accounted)
        little = ", which promises next to nothing" if empty else ""
        ways.append(
            f"claim {instead} instead of {brief(finding.claim.epsilon)}{little}{_if_so(finding)}"
        )
    elif finding.holds_at is not None and finding.holds_at < 0.99:
        ways.append(
            f"state delta {at_most(finding.holds_at)}, at which epsilon "
            f"{brief(finding.claim.epsilon)} holds"
        )
    if not ways:
        return "Withdraw the claim: no finite epsilon can be proved here."
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
    if reach is not None and (reach.measured or reach.accounted):
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
    if finding.measured is not None:
        return f"epsilon is {shown_epsilon(finding.measured.epsilon)}"
    return _proved(finding)


def _of_unclaimed(section: Section, finding: Finding) -> str:
    instead = _claim_instead(finding)
    if instead and finding.accounted is not None and not _vacuous(finding.accounted):
        return f"You may claim {instead}{_if_so(finding)}."
    return "Treat what leaves the devices as if it were the data: add noise, or do not deploy."


def _of_unsound(section: Section, finding: Finding) -> str:
    return "Use no number of this report, and report a bug of the auditor."


def _of_untested(section: Section, finding: Finding) -> str:
    return "Draw more, without --quick: so small a sample could not refute the claim."


def _of_elsewhere(section: Section, finding: Finding) -> str:
    return "Audit the claim in its own scope."


_TODO: dict[Verdict, Callable[[Section, Finding], str]] = {
    Verdict.UNSOUND: _of_unsound,
    Verdict.VIOLATED: _of_violated,
    Verdict.INCONCLUSIVE: _of_untested,
    Verdict.UNSUBSTANTIATED: _of_unproved,
    Verdict.CONSISTENT: _of_upheld,
    Verdict.NO_CLAIM: _of_unclaimed,
    Verdict.INCOMPARABLE: _of_elsewhere,
}
