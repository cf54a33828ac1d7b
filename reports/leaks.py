"""Leaks: attacks that get more from the uploads than is guessed without them, whatever is claimed.

Many rows are tried, so that some beat guessing by luck. Each row's lower limit is therefore moved
down as Bonferroni's correction over all of them asks. The record holds one interval a row, not its
sample; a limit at a higher confidence follows from it if the probability of an error larger than w
falls at least exponentially in w (its logarithm is concave, as for normal and binomial estimates):
then P(error > t w) <= P(error > w)^t / P(error > 0)^(t - 1), and half of all errors are above 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fedrec_auditor.accountants.verdict import LEAK_MARGIN
from fedrec_auditor.reports.rows import AttackRow, Contents, UtilityRow
from fedrec_auditor.reports.words import at_most, brief, percent


@dataclass(frozen=True, slots=True)
class Leak:
    """An attack row whose corrected lower limit is above its baseline by more than the margin.

    ``low`` is that limit and holds for all ``rows`` rows tried at once, at the row's confidence.
    """

    row: AttackRow
    baseline: float
    low: float
    rows: int

    @property
    def excess(self) -> float:
        """How far the corrected lower limit is above the baseline."""
        return self.low - self.baseline

    @property
    def share(self) -> float:
        """How much of what guessing leaves open is won, at the corrected limit: at most 1."""
        room = 1.0 - self.baseline
        return min(self.excess / room, 1.0) if room > 0.0 else 1.0

    @property
    def words(self) -> str:
        """The leak in a sentence, without the target."""
        row = self.row
        return (
            f"{row.attack} ({row.vantage}) reaches {row.metric} {brief(row.value)}, at least "
            f"{brief(self.low)} at {percent(row.confidence)} confidence corrected for "
            f"{self.rows:,} rows, where {brief(self.baseline)} is guessed without the uploads"
        )


def comparable(record: Contents) -> tuple[AttackRow, ...]:
    """The attack rows that have a baseline, which is an adversary without the upload."""
    return tuple(
        row
        for row in record.attacks
        if row.baseline is not None
        and all(map(math.isfinite, (row.value, row.ci_low, row.ci_high, row.baseline)))
    )


def widening(confidence: float, rows: int) -> float:
    """By what factor a half-width grows that is to hold for all of so many rows at once.

    The limit of a two-sided interval fails with probability a / 2, a = 1 - confidence; one that
    fails with a / (2 rows) is at most ln(a / rows) / ln(a) times as far from the estimate.

    >>> round(widening(0.95, 52), 3)
    2.319
    """
    failing = 1.0 - confidence
    return 1.0 + math.log(rows) / -math.log(failing) if failing > 0.0 and rows > 1 else 1.0


def corrected_low(row: AttackRow | UtilityRow, rows: int) -> float:
    """The row's lower limit, moved down so that those of so many rows hold at once."""
    return row.value - widening(row.confidence, rows) * max(0.0, row.value - row.ci_low)


def corrected_high(row: AttackRow | UtilityRow, rows: int) -> float:
    """The row's upper limit, moved up so that those of so many rows hold at once."""
    return row.value + widening(row.confidence, rows) * max(0.0, row.ci_high - row.value)


def leaks(record: Contents, margin: float = LEAK_MARGIN) -> tuple[Leak, ...]:
    """The leaks of a record, the largest excess over guessing first."""
    tried = comparable(record)
    found = [
        Leak(row, row.baseline, corrected_low(row, len(tried)), len(tried))
        for row in tried
        if row.baseline is not None
    ]
    return tuple(
        sorted((leak for leak in found if leak.excess > margin), key=lambda leak: -leak.excess)
    )


def left_open(rows: Sequence[AttackRow], tried: int, margin: float) -> str:
    """How far above guessing the rows may still be, in words; of "no leak" what it leaves open.

    That is the largest upper limit above its baseline, corrected for ``tried`` rows, and no less
    than the margin, which is never called a leak.
    """
    most = margin
    for row in rows:
        if row.baseline is not None:
            most = max(most, min(corrected_high(row, tried), 1.0) - row.baseline)
    return f"an advantage of up to {at_most(most)} is not ruled out"


def leak_line(record: Contents, found: Sequence[Leak], margin: float) -> str:
    """The worst leak of ``found`` and how many there are, or over how many rows there is none."""
    rows = comparable(record)
    tried = len(rows)
    if not found:
        but = f"; {left_open(rows, tried, margin)}" if rows else ""
        return (
            f"No leak: of {tried:,} attack rows with a baseline none is above it by more than "
            f"{brief(margin)}{but}."
        )
    worst = found[0]
    return (
        f"Worst leak: {worst.row.target}: {worst.words}. Leaks: {len(found):,} of {tried:,} rows, "
        f"by more than {brief(margin)}."
    )
