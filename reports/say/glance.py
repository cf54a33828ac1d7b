"""An audit at a glance: a line a system, the worst first, and four figures over all systems."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

from fedrec_auditor.accountants.statements import Bound, Horizon, Unit, Vantage
from fedrec_auditor.accountants.verdict import (
    LEAK_MARGIN,
    FailOn,
    Gate,
    Verdict,
    promises_little,
    refutes,
)
from fedrec_auditor.reports import say
from fedrec_auditor.reports.record.leaks import (
    DISTINGUISHER,
    MUCH,
    SOME,
    Assessment,
    Leak,
    Severity,
    above_guessing,
    comparable,
    leak_severity,
    left_open,
    most_won,
    severity_of,
    shown_bounds,
)
from fedrec_auditor.reports.record.rows import Contents, Finding
from fedrec_auditor.reports.record.sections import Section, anchors, sections
from fedrec_auditor.reports.say.metrics import (
    beats_guessing,
    got_words,
    object_words,
    shortfall,
    trainings_words,
)
from fedrec_auditor.reports.say.next_step import next_step

_FIRST = (Verdict.UNSOUND, Verdict.VIOLATED)
_CARDS = (Verdict.VIOLATED, Verdict.UNSUBSTANTIATED, Verdict.CONSISTENT, Verdict.NO_CLAIM)
"""What systems' claims may be that is told even of none."""
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

    Of its ``rows`` of attacks that have a baseline, ``leaking`` beat it by the margin and
    ``little`` by less, corrected for all of them, the most telling first; ``unseen`` says how far
    they may.
    """

    section: Section
    anchor: str
    rows: int
    leaking: tuple[Leak, ...]
    little: tuple[Leak, ...]
    unseen: str

    @property
    def assessment(self) -> Assessment:
        """How bad at least, by the rule of ``severity``, and what was not assessed."""
        return severity_of(self.section, self.leaking)

    @property
    def severity(self) -> Severity:
        """How bad at least."""
        return self.assessment.severity

    @property
    def leak(self) -> Assessment:
        """How bad what was learned is at least, and what was not assessed."""
        return leak_severity(self.section, self.leaking)

    @property
    def gap_line(self) -> str:
        """Parts of the system that were not assessed, and why."""
        return f"{self.section.target}: {self.assessment.gap or self.leak.gap}"

    @property
    def unknown(self) -> str:
        """Line on parts that were not assessed, and on what an attacker got all the same."""
        return f"Not assessed: {self.gap_line}; {self.got}"

    @property
    def verdict(self) -> str:
        """The verdict on the claim, in a word or few."""
        finding = self.section.headline_finding
        if finding is None:
            return "not judged"
        if finding.verdict is Verdict.NO_CLAIM:
            return "none"
        flag = say.flag_words(finding) if finding.verdict is Verdict.CONSISTENT else ""
        return say.listed(say.WORDS[finding.verdict], flag)

    @property
    def claim(self) -> str:
        """The numbers of the claim; empty where none was made or judged."""
        finding = self.section.headline_finding
        if finding is None or finding.verdict is Verdict.NO_CLAIM:
            return ""
        proof, refuted = finding.accounted, finding.verdict is Verdict.VIOLATED
        proved = "" if refuted else "none proved"
        if proof is not None and math.isfinite(proof.epsilon):
            proved = f"proved ≤{say.proved_of(finding)}"
        shown, bound, claim = "", finding.shown, finding.claim.epsilon
        if bound is not None:
            shown = f"shown {_sign(bound, say.shown_of(finding))}"
            times = bound.epsilon / claim if refuted and claim else math.inf
            shown += f", {say.at_least(times)} times as much" if math.isfinite(times) else ""
        claimed = f"epsilon {say.CLAIMED[finding.claim.basis]} {say.brief(finding.claim.epsilon)}"
        return say.listed(claimed, proved, shown)

    @property
    def scope(self) -> str:
        """The scope of the claim's numbers, and what they rest on; empty where it has none."""
        finding = self.section.headline_finding
        if finding is None or not self.claim:
            return ""
        assumed = say.assumption_words(finding.accounted)
        shown = "" if finding.shown is None else f"shown: {say.sure_words(finding.shown)}"
        rests = say.listed(shown, f"proved {assumed}" if assumed else "", by="; ")
        return f"for {say.question_words(finding)}" + (f" ({rests})" if rests else "")

    @property
    def sentence(self) -> str:
        """The verdict on the claim in a sentence, with its numbers and their scope."""
        finding = self.section.headline_finding
        if finding is None:
            return "No claim was judged."
        claim = say.listed(self.claim, self.scope)
        said = say.listed(say.TABLES["sentence"][finding.verdict], claim, by=": ")
        little = ". So large an epsilon promises next to nothing" if finding.vacuous else ""
        return f"{say.listed(said, self.shown, by='; ')}{little}."

    @property
    def head(self) -> str:
        """The verdict on the claim and its numbers, in few words; ``about`` has their scope."""
        most = self._largest
        shown = "" if most is None else f"epsilon shown {_sign(most, say.at_least(most.epsilon))}"
        return say.listed(f"claim {self.verdict}", self.claim or shown, by="; ")

    @property
    def about(self) -> str:
        """The scope of the numbers of ``head``, and what they rest on."""
        most = self._largest
        if self.claim or most is None:
            return self.scope
        return f"{_about(most)} (shown: {say.sure_words(most)})"

    @property
    def got(self) -> str:
        """The gain of an attacker, or that none got more than a guess; and if training broke."""
        return say.listed(self._won, self._also, self.broken, by="; ")

    @property
    def got_words(self) -> str:
        """The gain of an attacker, and the attack."""
        won = say.listed(self._won, f"({self.by})" if self.by else "", by=" ")
        return say.capitalized(say.listed(won, self._also, self.broken, by="; "))

    @property
    def broken(self) -> str:
        """A warning that most messages of the training tell nothing; empty where they do."""
        counts = self.section.messages
        if counts is None or 2 * counts.unread <= counts.sent:
            return ""
        figures = self.section.utility
        harmed = "the training broke down: " if figures and not beats_guessing(figures) else ""
        return f"{harmed}{counts.unread:,} of {counts.sent:,} messages tell nothing"

    @property
    def shortfall(self) -> str:
        """The level that recommendations do not beat, if it is known."""
        return say.capitalized(shortfall(self.section))

    @property
    def _won(self) -> str:
        if self.leaking:
            return got_words(self.leaking[0].row)
        if not self.rows:
            none = "no attack has a figure for guessing"
            return none if self.section.attacks else "no attack ran"
        lost = len(self.section.unplayed)
        said = say.listed(
            f"{len(self.little):,} of {say.counted(self.rows, 'figure')}",
            f"{lost} attack{'' if lost == 1 else 's'} could not run" if lost else "",
            self.unseen,
            by="; ",
        )
        tested = "hardly tested: " if self.leak.gap else ""
        if not self.little:
            return f"{tested}none of the attacks tried beat guessing ({said})"
        return f"{tested}little more than is guessed: {got_words(self.little[0].row)} ({said})"

    @property
    def _also(self) -> str:
        """Further objects of attacks that beat guessing; empty if there are none."""
        others = [*dict.fromkeys(object_words(leak.row) for leak in self.leaking)][1:]
        return f"above guessing, too: {', '.join(others)}" if others else ""

    @property
    def by(self) -> str:
        """The attack, the metric that got it and its interval; empty if none did."""
        for leak in (*self.leaking, *self.little):
            row, gain = leak.row, leak.row.gain
            ends = f"{say.brief(row.ci_low)} to {say.brief(row.ci_high)}"
            if gain is not None:
                above = f"{say.brief(gain.ci_low)} to {say.brief(gain.ci_high)}"
                ends += f", above guessing by {above},"
            sure = f"{say.percent(row.confidence)} confidence, {trainings_words([row])}"
            return f"{row.attack}, {row.metric}: {ends} at {sure}"
        return ""

    @property
    def shown(self) -> str:
        """The largest epsilon shown in any scope, where the claim's numbers do not tell it."""
        return _shown(self._largest)

    @property
    def todo(self) -> str:
        """Advice, as specific as the record is: what is wrong first."""
        much = [x.row for x in self.leaking if x.share >= SOME and x.row.family != DISTINGUISHER]
        alarms, told = [], ", ".join(dict.fromkeys(map(object_words, much)))
        if most_won(self.leaking) >= MUCH:
            alarms.append(f"Do not deploy it as it is: attacks reveal {told}.")
        elif much:
            alarms.append(f"Do not rely on epsilon alone: attacks partly reveal {told}.")
        if self.broken:
            alarms.append(f"Train it again before a figure is quoted ({self.broken}).")
        return next_step(self.section, leaks=bool(self.leaking), alarms=alarms, gap=self.leak.gap)

    @property
    def line(self) -> str:
        """All of it on one line, as a log has it."""
        claim = say.listed(f"claim {self.verdict}", say.listed(self.claim, self.scope), by=": ")
        told = (f"{claim}.", f"{self.got_words}.", self.shortfall, f"To do: {self.todo}")
        return f"{self.section.target}: {self.assessment.words}; {say.listed(*told, by=' ')}"

    @property
    def exposed(self) -> str:
        """How bad it is and by what: the claim, what an attacker got, or the epsilon shown."""
        leak = f"leak {self.leak.words.lower()}"
        severity = f"{self.assessment.words}; claim {self.verdict}; {leak}"
        shown = _shown(_most_shown(self.section))
        return f"{self.section.target}: {say.listed(severity, self.got, shown, by='; ')}"

    @property
    def _largest(self) -> Bound | None:
        """The largest lower bound in any scope, where it is more than the headline tells."""
        finding = self.section.headline_finding
        quoted = finding.shown if finding is not None and self.claim else None
        most = _most_shown(self.section)
        return None if most and quoted and most.epsilon <= quoted.epsilon else most


def glances(record: Contents, margin: float = LEAK_MARGIN) -> tuple[Glance, ...]:
    """The systems by severity; within it contradictions and refuted claims, then the most won."""
    tried, found, places = comparable(record), above_guessing(record, margin), anchors(record)
    told = []
    for section in sections(record):
        rows = [row for row in tried if row.target == section.target]
        above = sorted((x for x in found if x.row.target == section.target), key=_telling)
        leaking = tuple(leak for leak in above if not leak.little)
        little = tuple(leak for leak in above if leak.little)
        page = places[section.target].page
        told.append(Glance(section, page, len(rows), leaking, little, left_open(rows)))
    return tuple(sorted(told, key=_order))


def gated(record: Contents, gate: Gate) -> tuple[tuple[Glance, ...], tuple[Glance, ...]]:
    """The systems that fail a gate on leaks or severities, and those not assessed for it."""
    worst = Severity.MEDIUM
    if gate.fail_on in (FailOn.CRITICAL, FailOn.HIGH, FailOn.MEDIUM):
        worst = Severity[gate.fail_on.name]
    elif gate.fail_on is not FailOn.LEAK:
        return (), ()
    found: dict[bool | None, list[Glance]] = {True: [], None: [], False: []}
    for glance in glances(record, gate.leak_margin):
        asked = glance.leak if gate.fail_on is FailOn.LEAK else glance.assessment
        found[asked.fails(worst)].append(glance)
    return tuple(found[True]), tuple(found[None])


def shares(record: Contents) -> dict[str, int]:
    """How many systems' claims are what, by the worst verdict; together they are all systems."""
    found = [each.headline_finding for each in sections(record)]
    counts = Counter(finding.verdict for finding in found if finding is not None)
    told = {say.WORDS[v]: counts[v] for v in Verdict if counts[v] or v in _CARDS}
    return told | ({"not judged": found.count(None)} if None in found else {})


def summary(record: Contents) -> str:
    """The verdicts on the claims, counted in one sentence."""
    counts = [f"{count} {words}" for words, count in shares(record).items() if count]
    return f"Claims: {', '.join(counts) or 'none judged'}."


def hidden_words(record: Contents) -> str:
    """The number of systems that are proved to hide a whole user from the server, in a sentence."""
    parts = sections(record)
    count = sum(any(map(_hides, section.findings)) for section in parts)
    some = (
        f"{count or 'None'} of {say.counted(len(parts), 'system')} {'is' if count < 2 else 'are'}"
    )
    return f"{some} proved to hide a whole user from the server over the training."


def _hides(finding: Finding) -> bool:
    """Whether it is proved, and of no assumption, that one bit of a user stays below 99.9%."""
    scope, proof = finding.scope, finding.accounted
    asked = (scope.unit, scope.vantage, scope.horizon)
    if asked != (Unit.USER, Vantage.SERVER, Horizon.TRAINING) or finding.game:
        return False
    if proof is None or proof.assumptions:
        return False
    refuted = finding.shown is not None and refutes(finding.shown, proof)
    return not refuted and not promises_little(proof)


def _order(glance: Glance) -> tuple[int, int, float, float]:
    finding = glance.section.headline_finding
    tier = _FIRST.index(finding.verdict) if finding and finding.verdict in _FIRST else len(_FIRST)
    most = _most_shown(glance.section)
    shown = 0.0 if most is None else most.epsilon
    return glance.severity.place, tier, -most_won(glance.leaking), -shown


def _most_shown(section: Section) -> Bound | None:
    """The largest lower bound in any scope."""
    return max(shown_bounds(section), key=lambda bound: bound.epsilon, default=None)


def _telling(leak: Leak) -> tuple[bool, int, int, float]:
    """Mild ones last, then by how much is won, in steps, then by what."""
    family = leak.row.family
    place = _TELLING.index(family) if family in _TELLING else len(_TELLING) - 1
    step = sum(leak.share >= limit for limit in (MUCH, SOME))
    return family == DISTINGUISHER, -step, place, -leak.share


def _sign(shown: Bound, words: str) -> str:
    return "∞" if math.isinf(shown.epsilon) else f"≥{words}"


def _about(bound: Bound) -> str:
    return f"for {say.UNITS[bound.scope.unit]}, {say.VIEWS[bound.scope.vantage]}"


def _shown(bound: Bound | None) -> str:
    if bound is None:
        return ""
    most = f"{say.shown_epsilon(bound.epsilon)} ({say.sure_words(bound)})"
    return f"epsilon shown: {most} {_about(bound)}"
