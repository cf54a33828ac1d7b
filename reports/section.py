"""A record cut by target, with each target's verdict said in one sentence and what to do next."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

from fedrec_auditor.accountants.statements.bound import guess_probability
from fedrec_auditor.accountants.statements.scope import Vantage
from fedrec_auditor.accountants.verdict import Verdict
from fedrec_auditor.reports.rows import (
    AttackRow,
    Contents,
    Finding,
    Measurement,
    SkippedRow,
    UtilityRow,
)
from fedrec_auditor.reports.words import (
    ADJACENCIES,
    asked_words,
    brief_scope_words,
    delta_words,
    measured_words,
    number,
    often,
    proved_words,
    verdict_words,
)

# An open scope is no fault of the claim: it is weighed last, after what the claim does say.
_BY_SEVERITY = (
    Verdict.UNSOUND,
    Verdict.VIOLATED,
    Verdict.INCONCLUSIVE,
    Verdict.UNSUBSTANTIATED,
    Verdict.CONSISTENT,
    Verdict.NO_CLAIM,
    Verdict.INCOMPARABLE,
)


@dataclass(frozen=True, slots=True, repr=False)
class Section:
    """All that a record says of one target; ``others`` are bounds that no finding quotes."""

    target: str
    findings: tuple[Finding, ...]
    attacks: tuple[AttackRow, ...] = ()
    skipped: tuple[SkippedRow, ...] = ()
    utility: tuple[UtilityRow, ...] = ()
    others: tuple[Measurement, ...] = ()

    def __repr__(self) -> str:
        """The target, its verdict in one sentence, and what to do."""
        word = verdict_words(self.headline_finding)
        return f"{self.target}: {word}. {self.headline} What to do: {self.advice}"

    @property
    def violated(self) -> tuple[Finding, ...]:
        """The findings that refute a claim."""
        return tuple(f for f in self.findings if f.verdict is Verdict.VIOLATED)

    @property
    def unplayed(self) -> tuple[str, ...]:
        """The attacks of which there is a reason why they did not run, and no figure at all."""
        played = {row.attack for row in self.attacks}
        return tuple(dict.fromkeys(s.attack for s in self.skipped if s.attack not in played))

    @property
    def headline_finding(self) -> Finding | None:
        """The finding to name first: the most severe verdict, then the largest lower bound."""
        return min(self.findings, key=worst_first, default=None)

    @property
    def reach(self) -> Finding | None:
        """The widest leak in a scope of which the claim does not speak."""
        apart = [f for f in self.findings if f.verdict is Verdict.INCOMPARABLE]
        return max(apart, key=lambda f: f.measured.epsilon if f.measured else -1.0, default=None)

    @property
    def headline(self) -> str:
        """The verdict in one sentence."""
        finding = self.headline_finding
        if finding is None:
            return "No claim was judged."
        if finding.verdict is Verdict.NO_CLAIM:
            return finding.reason
        said = self._upheld() if finding.verdict is Verdict.CONSISTENT else _said(finding)
        return said if finding.verdict is Verdict.VIOLATED else said + self._beyond()

    @property
    def advice(self) -> str:
        """What to do about it."""
        finding = self.headline_finding
        if finding is None:
            return "Give the target a claim, or audit it with another plan."
        unclaimed = finding.verdict is Verdict.NO_CLAIM
        parts = [self._unclaimed() if unclaimed else _ADVICE[finding.verdict]]
        if any(f.vacuous for f in self.findings):
            parts.append(_VACUOUS)
        if self.reach is not None and finding.verdict is Verdict.CONSISTENT:
            parts.append(_ADVICE[Verdict.INCOMPARABLE])
        return " ".join(parts)

    def _unclaimed(self) -> str:
        """What to do where no epsilon is claimed."""
        if all(f.accounted is not None and f.accounted.epsilon == 0.0 for f in self.findings):
            return _NOTHING_SENT
        of_models = (Vantage.PEERS, Vantage.RELEASE)
        sent = any(row.vantage not in of_models for row in self.attacks)
        return _NO_EPSILON if sent else _UNBOUNDED

    def _beyond(self) -> str:
        apart = self.reach
        if apart is None or apart is self.headline_finding:
            return ""
        asked = asked_words(apart)
        about = brief_scope_words(apart.scope)
        if about == brief_scope_words(apart.claim.scope):  # what differs is left out of the words
            about += f", {ADJACENCIES[apart.scope.adjacency]}"
        said = f" It does not speak of {about}{asked and f' {asked}'}"
        if apart.measured is not None:
            said += f", where epsilon is {measured_words(apart.measured)}"
        elif apart.accounted is not None:
            said += f", where epsilon is {proved_words(apart.accounted)}"
        return said + "."

    def _upheld(self) -> str:
        upheld = [f for f in self.findings if f.verdict is Verdict.CONSISTENT]
        upheld = [f for f in upheld if f.scope == f.claim.scope] or upheld
        return f"Not refuted, and proved: {'; '.join(map(_promise, upheld))}."


def sections(record: Contents) -> tuple[Section, ...]:
    """One section a target, in the order in which the record first names them."""
    names = dict.fromkeys(
        row.target
        for rows in (
            record.findings,
            record.attacks,
            record.skipped,
            record.utility,
            record.measurements,
        )
        for row in rows
    )
    quoted = [(f.target, f.measured) for f in record.findings]
    return tuple(
        Section(
            target=name,
            findings=tuple(f for f in record.findings if f.target == name),
            attacks=tuple(a for a in record.attacks if a.target == name),
            skipped=tuple(a for a in record.skipped if a.target == name),
            utility=tuple(u for u in record.utility if u.target == name),
            others=tuple(
                m for m in record.measurements if m.target == name and (name, m.bound) not in quoted
            ),
        )
        for name in names
    )


def summary(record: Contents) -> str:
    """How many targets came to which verdict, in one sentence."""
    said = {
        Verdict.UNSOUND: "contradict our own proof",
        Verdict.VIOLATED: "refuted",
        Verdict.INCONCLUSIVE: "not decided by so small a sample",
        Verdict.UNSUBSTANTIATED: "neither refuted nor proved",
        Verdict.INCOMPARABLE: "not judged in the scope of the claim",
        Verdict.CONSISTENT: "proved and not refuted",
        Verdict.NO_CLAIM: "without a claim",
    }
    found = (section.headline_finding for section in sections(record))
    counts = Counter(finding.verdict for finding in found if finding is not None)
    parts = [f"{counts[verdict]} {words}" for verdict, words in said.items() if counts[verdict]]
    return f"Targets: {'; '.join(parts) or 'none judged'}."


def worst_first(finding: Finding) -> tuple[int, float]:
    """What findings are sorted by: the most severe verdict, then the largest lower bound."""
    measured = -1.0 if finding.measured is None else finding.measured.epsilon
    return _BY_SEVERITY.index(finding.verdict), -measured


def _promise(finding: Finding) -> str:
    claim = finding.claim
    said = f"epsilon {number(claim.epsilon)} ({delta_words(claim.delta)}) for "
    said += brief_scope_words(finding.scope)
    if not finding.vacuous:
        return said
    guess = guess_probability(claim.epsilon, claim.delta)
    return f"{said} (vacuous: one bit may still be guessed {often('up to', guess)})"


def _said(finding: Finding) -> str:
    claim = f"The claim of {_promise(finding)}"
    if finding.verdict is Verdict.UNSOUND:
        return f"The audit contradicts itself here: {finding.reason}"
    if finding.verdict is Verdict.VIOLATED and finding.measured is not None:
        return f"{claim} is refuted: epsilon is {measured_words(finding.measured)}."
    if finding.verdict is Verdict.UNSUBSTANTIATED:
        proved = "no finite epsilon can be proved"
        if finding.accounted is not None and math.isfinite(finding.accounted.epsilon):
            proved = f"epsilon is {proved_words(finding.accounted)}"
        return f"{claim} is not refuted, but not proved either: {proved}."
    if finding.verdict is Verdict.INCONCLUSIVE:
        return f"{claim} is neither proved nor put to the test: {finding.reason}"
    return f"The claim was not judged in its own scope ({finding.claim.scope})."


_ADVICE = {
    Verdict.UNSOUND: (
        "Use no number of this report. Report it as a bug of the auditor, with report.json."
    ),
    Verdict.VIOLATED: (
        "Withdraw the claim or repair the mechanism; the counterexample shows the pair of inputs "
        "that must be made harder to tell apart. Gate the release on this finding."
    ),
    Verdict.INCONCLUSIVE: (
        "Draw more, without --quick; until then nothing follows. To let it pass: --allow "
        "inconclusive."
    ),
    Verdict.UNSUBSTANTIATED: "State the epsilon that can be proved, or bring the missing proof.",
    Verdict.CONSISTENT: "Quote the claim only together with its scope and its delta.",
    Verdict.INCOMPARABLE: (
        "Wherever the claim is quoted, name its unit and its horizon, and give the figure of the "
        "wider scope beside it."
    ),
}
_NO_EPSILON = (
    "Treat the uploads as if they were the data: whoever sees them has what the attacks recover."
)
_UNBOUNDED = "Treat what is sent or published as if it were the data: nothing bounds what it tells."
_NOTHING_SENT = "Nothing: what leaves the devices is proved not to depend on the data."
_VACUOUS = (
    "Where the claim is vacuous, lower epsilon or claim none: so large a number promises little."
)
