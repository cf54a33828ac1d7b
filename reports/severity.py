"""How bad it is of one system, in a word, by a rule that is written down and has a number.

docs/reading-a-report.md tells the rule in words. It reads nothing but rows of the record, so that
``report.json`` says the severity only together with ``SEVERITY_RULE``, and a reader derives it.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from fedrec_auditor.accountants.statements.bound import Bound, guess_probability
from fedrec_auditor.accountants.verdict import VACUOUS_GUESS, Verdict, promises_little
from fedrec_auditor.reports.leaks import Leak
from fedrec_auditor.reports.rows import Finding
from fedrec_auditor.reports.section import Section

SEVERITY_RULE = 3
"""The number of the rule; another rule has another."""
MUCH, SOME = 0.5, 0.2
"""Of what guessing leaves open, the share that an attack must win to be critical, or high."""
LIKELY = 0.9
"""How often one bit must be guessed right under the largest epsilon shown to be medium."""
DISTINGUISHER = "distinguisher"
"""The family that guesses which of two worst inputs was sent; its epsilon says the same."""
MILD = (DISTINGUISHER, "activity inference")
"""Families that make nothing more than medium: how active users are says little of who they are."""


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


def severity_of(section: Section, leaks: Sequence[Leak]) -> Severity:
    """The worse of claim and leak; a refuted claim whose leak is high or worse is critical.

    Where neither was looked at, the system is not assessed. ``leaks`` are those of the section's
    target; what beats guessing by less is none.
    """
    claim, leak = claim_severity(section.headline_finding), leak_severity(section, leaks)
    if section.violated and leak is not None and leak.place <= Severity.HIGH.place:
        return Severity.CRITICAL
    looked_at = [each for each in (claim, leak) if each is not None]
    return min(looked_at, key=lambda each: each.place, default=Severity.NOT_ASSESSED)


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


def leak_severity(section: Section, leaks: Sequence[Leak]) -> Severity | None:
    """How bad what an adversary was shown to learn is; None where too little was looked at.

    That is where no epsilon was shown, and of the attacks none ran, or fewer than could not run
    and none of them won anything.
    """
    shown = [bound.epsilon for bound in shown_bounds(section)]
    played = {row.attack for row in section.attacks}
    if not shown and not leaks and len(played) <= len(section.unplayed):
        return None
    won = most_won(leaks)
    guessed = guess_probability(max(shown, default=0.0))
    if won >= MUCH:
        return Severity.CRITICAL
    if won >= SOME or guessed >= VACUOUS_GUESS:
        return Severity.HIGH
    return Severity.MEDIUM if leaks or guessed >= LIKELY else Severity.LOW


def most_won(leaks: Sequence[Leak]) -> float:
    """The largest share of what guessing leaves open that no ``MILD`` attack won; 0 without one."""
    return max((leak.share for leak in leaks if leak.row.family not in MILD), default=0.0)


def shown_bounds(section: Section) -> tuple[Bound, ...]:
    """The lower bounds of a section that hold without an assumption."""
    quoted = [finding.shown for finding in section.findings]
    others = [other.bound for other in section.others if not other.bound.assumptions]
    return tuple(bound for bound in (*quoted, *others) if bound is not None)
