"""Attacks as a map: which attack got how much from which part of an upload."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from fedrec_auditor.reports.rows import AttackRow

WHOLE = "all of it"
"""The part of an upload of a figure that names none."""


@dataclass(frozen=True, slots=True)
class MapRow:
    """One attack's figure from one vantage, and its row at each of the map's parts or None."""

    attack: str
    vantage: str
    figure: str
    cells: tuple[AttackRow | None, ...]

    @property
    def guessed(self) -> float | None:
        """What is guessed without the uploads, where it is the same of all parts."""
        baselines = {cell.baseline for cell in self.cells if cell is not None}
        return baselines.pop() if len(baselines) == 1 else None


@dataclass(frozen=True, slots=True)
class AttackMap:
    """``parts`` of uploads are the columns, the whole first."""

    parts: tuple[str, ...]
    rows: tuple[MapRow, ...]

    @classmethod
    def of(cls, attacks: Sequence[AttackRow]) -> AttackMap:
        """The map of rows of one target, in their order."""
        placed = [(row, *_apart(row.metric)) for row in attacks]
        named = dict.fromkeys(part for _, _, part in placed if part != WHOLE)
        parts = (WHOLE, *named) if any(part == WHOLE for *_, part in placed) else tuple(named)
        lines: dict[tuple[str, str, str], dict[str, AttackRow]] = {}
        for row, figure, part in placed:
            lines.setdefault((row.attack, row.vantage.value, figure), {}).setdefault(part, row)
        return cls(
            parts,
            tuple(
                MapRow(*names, tuple(found.get(part) for part in parts))
                for names, found in lines.items()
            ),
        )


def _apart(metric: str) -> tuple[str, str]:
    """The figure of a metric, and the part of the upload that it names behind a comma, if any.

    >>> _apart("gender macro F1 (30% known, item only)"), _apart("AUC")
    (('gender macro F1 (30% known)', 'item only'), ('AUC', 'all of it'))
    """
    found = re.fullmatch(r"(.*) \(([^(),]*), ([^()]*)\)", metric)
    return (f"{found[1]} ({found[2]})", found[3]) if found else (metric, WHOLE)
