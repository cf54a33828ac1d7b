"""A change between two records: what moved of which system, and where that leads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from fedrec_auditor.reports.rows import Finding

Kept = TypeVar("Kept")


class Trend(StrEnum):
    """Where a change leads."""

    WORSE = "worse"
    BETTER = "better"
    OTHER = "other"


class Subject(StrEnum):
    """What changed, in the order of what a reader minds most."""

    VERDICT = "verdict"
    SHOWN = "epsilon shown"
    ATTACK = "attack"
    PROVED = "epsilon proved"
    CLAIM = "claim"
    SYSTEM = "system"
    UTILITY = "utility"


@dataclass(frozen=True, slots=True)
class Change:
    """One change of one system; ``before`` and ``now`` are None where there was or is nothing."""

    trend: Trend
    subject: Subject
    target: str
    words: str
    before: float | str | None = None
    now: float | str | None = None

    @property
    def line(self) -> str:
        """The change in a sentence, with its system."""
        return f"{self.target}: {self.words}"


def numbered(
    rows: Iterable[Kept], key: Callable[[Kept], Hashable]
) -> dict[tuple[Hashable, int], Kept]:
    """Rows by their key and by how many of that key came before."""
    seen: Counter[Hashable] = Counter()
    found = {}
    for row in rows:
        own = key(row)
        found[own, seen[own]] = row
        seen[own] += 1
    return found


def pairs(
    now: Iterable[Kept], before: Iterable[Kept], key: Callable[[Kept], Hashable]
) -> list[tuple[Kept, Kept]]:
    """The rows that both have, the later first."""
    old = numbered(before, key)
    return [(row, old[name]) for name, row in numbered(now, key).items() if name in old]


def question(finding: Finding) -> tuple[Hashable, ...]:
    """What a finding asks, whatever epsilon is claimed."""
    return (
        finding.target,
        finding.scope,
        finding.delta,
        finding.game,
        finding.outside_model,
        finding.claim.scope,
    )
