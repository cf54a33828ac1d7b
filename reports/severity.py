"""How bad it is of one system, in a word, by a rule that is written down and has a number.

docs/reading-a-report.md tells the rule in words. It reads nothing but rows of the record, so that
``report.json`` says the severity only together with ``SEVERITY_RULE``, and a reader derives it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from fedrec_auditor.accountants.statements import Bound, guess_probability
from fedrec_auditor.accountants.verdict import VACUOUS_GUESS, Verdict, promises_little
from fedrec_auditor.reports import say
from fedrec_auditor.reports.leaks import Leak, comparable
from fedrec_auditor.reports.rows import Finding
from fedrec_auditor.reports.section import Section

SEVERITY_RULE = 4
"""The number of the rule; another rule has another."""
MUCH, SOME = 0.5, 0.2
"""Of what guessing leaves open, the share that an attack must win to be critical, or high."""
LIKELY = 0.9
"""How often one bit must be guessed right under the largest epsilon shown to be medium."""
DISTINGUISHER = "distinguisher"
"""The family that guesses which of two worst inputs was sent, and makes nothing more than medium:
its epsilon says the same."""


class Severity(StrEnum):
    """How bad, from the worst."""

    CRITICAL = "Critical"
    HIGH = "High"
    MEDIUM = "Medium"
    NOT_ASSESSED = "Not assessed"
    LOW = "Low"

    @property
    def place(self) -> int:
        """0 for the worst."""
        return list(Severity).index(self)


@dataclass(frozen=True, slots=True)
class Assessment:
    """A lower bound on how bad something is: ``level``, from what was looked at.

    ``unknown`` names what was not assessed and why, for which it may be worse; empty where it was.
    """

    level: Severity
    unknown: str = ""

    @property
    def gap(self) -> str:
        """Unknown parts, unless nothing is worse."""
        return "" if self.level is Severity.CRITICAL else self.unknown

    @property
    def severity(self) -> Severity:
        """The level; one that is low only because nobody looked is not assessed."""
        unknown = self.gap and self.level is Severity.LOW
        return Severity.NOT_ASSESSED if unknown else self.level

    @property
    def words(self) -> str:
        """The severity, and that it may be worse."""
        worse = self.gap and self.severity is self.level
        return f"{self.severity}{' or worse' if worse else ''}"

    def fails(self, worst: Severity) -> bool | None:
        """Whether the level is ``worst`` or worse; None if that is not known."""
        if self.level.place <= worst.place:
            return True
        return None if self.gap else False


def severity_of(section: Section, leaks: Sequence[Leak]) -> Assessment:
    """The worse of claim and leak; a refuted claim whose leak is high or worse is critical.

    What is not known of either is not known of both, unless it is critical already. ``leaks`` are
    those of the section's target; what beats guessing by less is none.
    """
    finding = section.headline_finding
    claim, leak = claim_severity(finding), leak_severity(section, leaks)
    gaps = [leak.gap]
    if finding is not None and claim is None:
        gaps.insert(0, "claim (not judged for what it speaks of)")
    level = min(leak.level, claim or leak.level, key=lambda each: each.place)
    if section.violated and leak.level.place <= Severity.HIGH.place:
        level = Severity.CRITICAL
    return Assessment(level, say.listed(*gaps, by="; "))


def claim_severity(finding: Finding | None) -> Severity | None:
    """How bad what became of the claim is; None where none was judged in its scope."""
    if finding is None or finding.verdict is Verdict.INCOMPARABLE:
        return None
    if finding.verdict is Verdict.UNSOUND:
        return Severity.CRITICAL
    if finding.verdict is Verdict.VIOLATED:
        return Severity.HIGH
    if finding.verdict is Verdict.NO_CLAIM:
        proof = finding.accounted
        open_ = proof is None or promises_little(proof)
        return Severity.MEDIUM if open_ else Severity.LOW
    open_ = finding.verdict in (Verdict.UNSUBSTANTIATED, Verdict.INCONCLUSIVE)
    return Severity.MEDIUM if open_ or finding.vacuous else Severity.LOW


def leak_severity(section: Section, leaks: Sequence[Leak]) -> Assessment:
    """How bad what an adversary was shown to learn is, and why more may be learned.

    It is assessed if more attacks were held against guessing than could not run, and most messages
    could be read. Attacks that make nothing worse than medium do not count, nor does an epsilon of
    a game: neither excludes what another attack would have got.
    """
    shown = [bound.epsilon for bound in shown_bounds(section)]
    won = most_won(leaks)
    guessed = guess_probability(max(shown, default=0.0))
    if won >= MUCH:
        level = Severity.CRITICAL
    elif won >= SOME or guessed >= VACUOUS_GUESS:
        level = Severity.HIGH
    else:
        level = Severity.MEDIUM if leaks or guessed >= LIKELY else Severity.LOW
    why = _unassessed(section)
    return Assessment(level, f"leak ({why})" if why else "")


def _unassessed(section: Section) -> str:
    """Why the attacks that ran exclude no leak; empty where they do as far as attacks can."""
    counts, unplayed = section.messages, len(section.unplayed)
    if counts is not None and 2 * counts.unread > counts.sent:
        return f"{counts.unread:,} of {counts.sent:,} messages tell nothing"
    if len({row.attack for row in comparable(section) if row.family != DISTINGUISHER}) > unplayed:
        return ""
    played = dict.fromkeys(row.attack for row in section.attacks)
    if unplayed:
        return f"{unplayed} of {unplayed + len(played)} attacks could not run here"
    return f"only {', '.join(played)} ran" if played else "no attack ran"


def most_won(leaks: Sequence[Leak]) -> float:
    """The largest share of what guessing leaves open that no distinguisher won; 0 without one."""
    return max((leak.share for leak in leaks if leak.row.family != DISTINGUISHER), default=0.0)


def shown_bounds(section: Section) -> tuple[Bound, ...]:
    """The lower bounds of a section that hold without an assumption."""
    quoted = [finding.shown for finding in section.findings]
    others = [other.bound for other in section.others if not other.bound.assumptions]
    return tuple(bound for bound in (*quoted, *others) if bound is not None)
