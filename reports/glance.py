"""An audit at a glance: a line a system, the worst first, and four figures over all systems."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from fedrec_auditor.accountants.statements.bound import guess_probability
from fedrec_auditor.accountants.statements.scope import Horizon, Unit, Vantage
from fedrec_auditor.accountants.verdict import VACUOUS_GUESS, Verdict, refutes
from fedrec_auditor.reports.leaks import comparable, leaks
from fedrec_auditor.reports.rows import Contents, Finding
from fedrec_auditor.reports.section import Section, gain, sections, severity
from fedrec_auditor.reports.words import brief, number, percent

_FIRST = (Verdict.UNSOUND, Verdict.VIOLATED)
_UNPROVED = (Verdict.UNSUBSTANTIATED, Verdict.INCONCLUSIVE)
_TRUTH = {
    Verdict.UNSOUND: "contradicts our own proof",
    Verdict.VIOLATED: "false",
    Verdict.INCONCLUSIVE: "not tested by so small a sample",
    Verdict.UNSUBSTANTIATED: "unproved",
    Verdict.CONSISTENT: "proved, not refuted",
    Verdict.NO_CLAIM: "none",
    Verdict.INCOMPARABLE: "not judged in its own scope",
}
"""What a verdict says of a claim, in a word or few. A claim is never called true."""


@dataclass(frozen=True, slots=True)
class Glance:
    """One system: ``place`` is that of its section in the report, counted from 1.

    Of its ``rows`` of attacks that have a baseline ``leaking`` beat it by the margin, corrected for
    all rows of the record (``leaks``).
    """

    place: int
    section: Section
    rows: int
    leaking: int

    @property
    def claim(self) -> str:
        """What became of the claim, in few words and two numbers."""
        finding = self.section.headline_finding
        if finding is None:
            return "not judged"
        said = _TRUTH[finding.verdict]
        if finding.verdict is Verdict.NO_CLAIM:
            return said
        text = f"{said} ({finding.verdict}): epsilon {number(finding.claim.epsilon)} claimed"
        if finding.measured is not None:
            sure = finding.measured.confidence
            how = "exactly" if sure == 1.0 else f"at {percent(sure)} confidence"
            text += f", at least {number(finding.measured.epsilon)} shown {how}"
        return text

    @property
    def attack(self) -> str:
        """What the worst attack got, and what is guessed without the uploads."""
        worst = self.section.worst
        if worst is None:
            return "no attack ran"
        base = "with no baseline" if worst.baseline is None else f"against {brief(worst.baseline)}"
        return f"{worst.attack} gets {worst.metric} {brief(worst.value)} {base}" + (
            "" if worst.baseline is None else " guessed"
        )


@dataclass(frozen=True, slots=True)
class Share:
    """How many of all systems, and of what."""

    count: int
    of: int
    words: str


def glances(record: Contents) -> tuple[Glance, ...]:
    """The systems: contradictions and refuted claims first; then by what attacks gain."""
    rows = Counter(row.target for row in comparable(record))
    leaking = Counter(leak.row.target for leak in leaks(record))
    found = [
        Glance(place, section, rows[section.target], leaking[section.target])
        for place, section in enumerate(sections(record), 1)
    ]
    return tuple(sorted(found, key=_order))


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
            verdict is Verdict.NO_CLAIM and each.leaking > 0
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
    if proof is None or asked != (Unit.USER, Vantage.SERVER, Horizon.TRAINING):
        return False
    refuted = finding.measured is not None and refutes(finding.measured, proof)
    return not refuted and guess_probability(proof.epsilon, proof.delta) < VACUOUS_GUESS


def _order(glance: Glance) -> tuple[int, float, tuple[int, float]]:
    """Contradictions and refuted claims first; then by what attacks gain, claim or none."""
    finding, worst = glance.section.headline_finding, glance.section.worst
    if finding is None:
        return len(_FIRST), -gain(worst) if worst else 0.0, (len(Verdict), 0.0)
    tier = _FIRST.index(finding.verdict) if finding.verdict in _FIRST else len(_FIRST)
    return tier, -gain(worst) if worst else 0.0, severity(finding)
