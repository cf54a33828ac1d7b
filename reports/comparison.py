"""What got worse between two records: verdicts, and what attacks get from the uploads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from fedrec_auditor.accountants.verdict import FOUND, FailOn, Gate, Verdict, is_worse
from fedrec_auditor.reports.leaks import comparable, corrected_high, corrected_low, leaks
from fedrec_auditor.reports.rows import AttackRow, Contents, Finding
from fedrec_auditor.reports.words import brief, number

_Row = TypeVar("_Row", Finding, AttackRow)


@dataclass(frozen=True, slots=True)
class Comparison:
    """A record against an earlier one, its baseline.

    ``worse`` says what got worse, a line each. ``uncertain`` says what the comparison leaves open:
    other data, and rows of the baseline that the record no longer has.
    """

    worse: tuple[str, ...]
    uncertain: tuple[str, ...]

    @classmethod
    def of(cls, record: Contents, baseline: Contents, gate: Gate) -> Comparison:
        """What got worse; nothing with ``--fail-on never``.

        A finding got worse if its verdict did, or if it is new and ``gate`` fails it. An attack
        row got worse if it is a leak now and its lower limit is above the upper limit that it had,
        both corrected for the number of rows that are compared; with ``--fail-on leak`` also if it
        is a leak and new.
        """
        if gate.fail_on is FailOn.NEVER:
            return cls((), ())
        worse = _findings(record, baseline, gate) + _rows(record, baseline, gate)
        return cls(tuple(worse), tuple(_uncertain(record, baseline)))


def _findings(record: Contents, baseline: Contents, gate: Gate) -> list[str]:
    before, lines = _numbered(baseline.findings, _finding_key), []
    for key, now in _numbered(record.findings, _finding_key).items():
        old = before.get(key)
        about = f"{now.target}: {now.verdict} for epsilon {number(now.claim.epsilon)} [{now.scope}]"
        if old is not None and is_worse(now.verdict, old.verdict):
            lines.append(f"{about}, was {old.verdict}.")
        elif old is None and (now.verdict is Verdict.VIOLATED or gate.code([now.verdict]) == FOUND):
            lines.append(f"{about}, not in the baseline.")
    return lines


def _rows(record: Contents, baseline: Contents, gate: Gate) -> list[str]:
    before = _numbered(comparable(baseline), _row_key)
    now = _numbered(comparable(record), _row_key)
    compared, lines = len(before.keys() & now.keys()), []
    keys = {id(row): key for key, row in now.items()}
    for leak in leaks(record, gate.leak_margin):
        row, old = leak.row, before.get(keys[id(leak.row)])
        if old is None and gate.fail_on is FailOn.LEAK:
            lines.append(f"{row.target}: {leak.words}, not in the baseline.")
        elif old is not None and corrected_low(row, compared) > corrected_high(old, compared):
            lines.append(
                f"{row.target}: {row.attack} ({row.vantage}) reaches {row.metric} "
                f"{brief(row.value)} [{brief(row.ci_low)}, {brief(row.ci_high)}], was "
                f"{brief(old.value)} [{brief(old.ci_low)}, {brief(old.ci_high)}]."
            )
    return lines


def _uncertain(record: Contents, baseline: Contents) -> list[str]:
    lines = []
    if record.provenance.data != baseline.provenance.data:
        lines.append("The baseline is of other data: what rose may have risen for that.")
    findings = _gone(baseline.findings, record.findings, _finding_key)
    rows = _gone(comparable(baseline), comparable(record), _row_key)
    lost = ((findings, "findings"), (rows, "attack rows"))
    gone = [f"{count:,} {what}" for count, what in lost if count]
    if gone:
        lines.append(
            f"Of the baseline {' and '.join(gone)} are not in this audit and were not compared."
        )
    return lines


def _gone(before: Iterable[_Row], now: Iterable[_Row], key: Callable[[_Row], Hashable]) -> int:
    """How many rows there are no longer."""
    return len(_numbered(before, key).keys() - _numbered(now, key).keys())


def _numbered(
    rows: Iterable[_Row], key: Callable[[_Row], Hashable]
) -> dict[tuple[Hashable, int], _Row]:
    """Rows by their key and by how many of that key came before."""
    seen: Counter[Hashable] = Counter()
    found = {}
    for row in rows:
        own = key(row)
        found[own, seen[own]] = row
        seen[own] += 1
    return found


def _finding_key(finding: Finding) -> Hashable:
    claim = finding.claim
    return (
        finding.target,
        finding.scope,
        finding.delta,
        finding.game,
        finding.outside_model,
        claim.scope,
        claim.epsilon,
        claim.delta,
    )


def _row_key(row: AttackRow) -> Hashable:
    return row.target, row.attack, row.vantage, row.metric
