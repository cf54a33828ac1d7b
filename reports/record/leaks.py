"""Leaks: attacks that get more from the uploads than is guessed without them, whatever is claimed.

Many rows are tried, so that some beat guessing by luck. Those of one system are therefore tested
together, as Holm (1979) does, so that one of them beats guessing by luck with probability
(1 - confidence) / 2 at most, whatever else the audit holds. The lower limits that are told hold
for all rows of the system at once, by Bonferroni's correction.

The record holds one interval a row, not its sample. Limits at other confidences, and so the test,
are those of a share of as many subjects as would give this interval (the exact limits of Clopper
and Pearson 1934, with the effective sample size of Korn and Graubard 1998).

What is won is counted in parts of what guessing leaves open, 1 - baseline: .05 of it or more is a
leak, and less is said to be little.

How bad it is of a system is said in a word, by a rule that has a number and reads nothing but rows
of the record: docs/reading-a-report.md tells it in words. ``report.json`` says the severity only
together with ``SEVERITY_RULE``, and a reader derives it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from fedrec_auditor.accountants.statements import Bound, guess_probability
from fedrec_auditor.accountants.verdict import LEAK_MARGIN, VACUOUS_GUESS, Verdict, promises_little
from fedrec_auditor.reports import say
from fedrec_auditor.reports.record.rows import AttackRow, Contents, Finding
from fedrec_auditor.reports.record.sections import Section, sections
from fedrec_auditor.reports.say.metrics import trainings_words

_SIZES = (1e-9, 1e9)
"""The least and the largest effective sample size."""


@dataclass(frozen=True, slots=True)
class Leak:
    """An attack row that beats its baseline: by the margin, or ``little``.

    ``low`` is a lower limit of its figure that holds for all ``rows`` rows of its system at once,
    and for what was found to beat guessing, at the row's confidence.
    """

    row: AttackRow
    baseline: float
    low: float
    rows: int
    little: bool = False

    @property
    def share(self) -> float:
        """How much of what guessing leaves open is won, at the lower limit: at most 1."""
        room = 1.0 - self.baseline
        return min((self.low - self.baseline) / room, 1.0) if room > 0.0 else 1.0

    @property
    def words(self) -> str:
        """The leak in a sentence, without the target."""
        row = self.row
        return (
            f"{row.attack} ({row.vantage}) reaches {row.metric} {say.brief(row.value)}, at least "
            f"{say.brief(self.low)} at {say.percent(row.confidence)} confidence "
            f"({trainings_words([row])}; corrected for {self.rows:,} rows of the system), where "
            f"{say.brief(self.baseline)} is guessed without the uploads"
        )


def comparable(record: Contents | Section) -> tuple[AttackRow, ...]:
    """The attack rows that have a baseline, which is an adversary without the upload.

    Their figures are at most 1, and 1 is the best.
    """
    return tuple(
        row
        for row in record.attacks
        if row.baseline is not None
        and all(-1.0 <= x <= 1.0 + 1e-9 for x in (row.value, row.ci_low, row.ci_high, row.baseline))
    )


def above_guessing(record: Contents, margin: float = LEAK_MARGIN) -> tuple[Leak, ...]:
    """The rows that beat guessing, by the ``margin`` or by less, the largest share won first."""
    tried = comparable(record)
    found = [
        leak
        for target in dict.fromkeys(row.target for row in tried)
        for leak in _of_system([row for row in tried if row.target == target], margin)
    ]
    return tuple(sorted(found, key=lambda leak: -leak.share))


def leaks(record: Contents, margin: float = LEAK_MARGIN) -> tuple[Leak, ...]:
    """The leaks of a record, the largest share won first; what is won is not little."""
    return tuple(leak for leak in above_guessing(record, margin) if not leak.little)


def _of_system(rows: Sequence[AttackRow], margin: float) -> Iterator[Leak]:
    """The rows of one system that beat guessing."""
    beating, much = _rejected(rows, 0.0), _rejected(rows, margin)
    for row in rows:
        if id(row) in beating:
            baseline, little = row.baseline or 0.0, id(row) not in much
            least = baseline + (0.0 if little else margin * (1.0 - baseline))
            figure = _Figure.against_guessing(row)
            low = max(baseline + figure.low_of(len(rows)) - figure.guessed, least)
            yield Leak(row, baseline, low, len(rows), little)


def _rejected(rows: Sequence[AttackRow], margin: float) -> set[int]:
    """The rows, by identity, that beat guessing by more than ``margin``: Holm's procedure."""
    found: set[int] = set()
    tested = sorted(((_luck(row, margin), row) for row in rows), key=lambda pair: pair[0])
    for left, (luck, row) in zip(range(len(rows), 0, -1), tested, strict=True):
        if luck > (1.0 - row.confidence) / 2 / left:
            break
        found.add(id(row))
    return found


def _luck(row: AttackRow, margin: float) -> float:
    """How likely so good a figure is for who wins no more than ``margin`` of what is left open."""
    figure = _Figure.against_guessing(row)
    return figure.luck(figure.guessed + margin * (1.0 - (row.baseline or 0.0)))


def corrected_low(row: AttackRow, rows: int) -> float:
    """The row's lower limit, moved down so that those of so many rows hold at once."""
    return _Figure.of(row).low_of(rows)


def corrected_high(row: AttackRow, rows: int) -> float:
    """The row's upper limit, moved up so that those of so many rows hold at once."""
    return _Figure.of(row).high_of(rows)


@dataclass(frozen=True, slots=True)
class _Figure:
    """A figure in [``least``, 1] with its limits, each of which fails with probability ``failing``.

    ``guessed`` is what it is without the uploads.
    """

    value: float
    low: float
    high: float
    guessed: float
    least: float
    failing: float

    @classmethod
    def of(cls, row: AttackRow) -> _Figure:
        """The row's own."""
        guessed = row.baseline or 0.0
        least = -1.0 if min(row.value, row.ci_low, guessed) < 0.0 else 0.0
        failing = (1.0 - row.confidence) / 2
        return cls(row.value, row.ci_low, row.ci_high, guessed, least, failing)

    @classmethod
    def against_guessing(cls, row: AttackRow) -> _Figure:
        """The row's gain over its baseline where it has one of the same users, else its own."""
        if row.gain is None:
            return cls.of(row)
        gain, failing = row.gain, (1.0 - row.confidence) / 2
        return cls(gain.value, gain.ci_low, gain.ci_high, 0.0, -1.0, failing)

    def luck(self, bar: float) -> float:
        """The probability of so large a figure where ``bar`` is the truth: of a binomial share."""
        value, low, bar = map(self._share, (self.value, self.low, bar))
        if value <= bar:
            return 1.0
        size = _size(value, low, self.failing)
        if math.isinf(size):
            return 0.0
        from scipy.special import betainc

        return float(betainc(value * size, (1.0 - value) * size + 1.0, max(bar, 0.0)))

    def low_of(self, rows: int) -> float:
        value, low = self._share(self.value), self._share(self.low)
        return self._figure(_moved(value, low, self.failing, rows))

    def high_of(self, rows: int) -> float:
        value, high = self._share(self.value), self._share(self.high)
        return self._figure(1.0 - _moved(1.0 - value, 1.0 - high, self.failing, rows))

    def _share(self, figure: float) -> float:
        return min((figure - self.least) / (1.0 - self.least), 1.0)

    def _figure(self, share: float) -> float:
        return self.least + share * (1.0 - self.least)


def _moved(value: float, low: float, failing: float, rows: int) -> float:
    """The lower limit of a share that fails with ``failing`` / ``rows`` instead of ``failing``."""
    if rows <= 1 or low >= value or failing <= 0.0:
        return min(low, value)
    return min(low, _limit(value, _size(value, low, failing), failing / rows))


def _limit(value: float, size: float, failing: float) -> float:
    """The exact lower limit of the share ``value`` of ``size`` subjects."""
    from scipy.special import betaincinv

    return float(betaincinv(value * size, (1.0 - value) * size + 1.0, failing))


@functools.lru_cache(maxsize=4096)
def _size(value: float, low: float, failing: float) -> float:
    """The number of subjects for which a share ``value`` has the lower limit ``low``."""
    if low >= value or failing <= 0.0:
        return math.inf
    least, most = map(math.log, _SIZES)
    for _ in range(60):
        middle = 0.5 * (least + most)
        if _limit(value, math.exp(middle), failing) < low:
            least = middle
        else:
            most = middle
    return math.exp(least)


def left_open(rows: Sequence[AttackRow], tried: int | None = None) -> str:
    """How far above guessing the rows of a system may still be, in words.

    That is the largest upper limit above its baseline, corrected for all ``tried`` rows of the
    system, by default these.
    """
    count = len(rows) if tried is None else tried
    figures = map(_Figure.against_guessing, rows)
    most = max((one.high_of(count) - one.guessed for one in figures), default=0.0)
    if most <= 0.0:
        return "none of these attacks has an advantage; others may have one"
    advantage = f"an advantage of up to {say.at_most(most)}"
    return f"of these attacks, not of others, {advantage} is not ruled out"


def leak_line(record: Contents, margin: float) -> str:
    """The worst leak and how many there are, or which attacks found none and which did not run."""
    tried, above = comparable(record), above_guessing(record, margin)
    found = [leak for leak in above if not leak.little]
    by = f"{say.percent(margin)} or more of what guessing leaves open"
    little = f" {len(above) - len(found):,} beat it by less." if len(above) > len(found) else ""
    if not found:
        names = ", ".join(dict.fromkeys(row.attack for row in tried)) or "none"
        lost = [
            f" Could not run on {section.target}: {', '.join(section.unplayed)}."
            for section in sections(record)
            if section.unplayed
        ]
        return (
            f"No leak found: of {len(tried):,} attack rows with a baseline none wins {by}.{little} "
            f"Tried: {names}.{''.join(lost)}"
        )
    worst = found[0]
    return (
        f"Worst leak: {worst.row.target}: {worst.words}. Leaks: {len(found):,} of "
        f"{len(tried):,} rows win {by}.{little}"
    )


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
