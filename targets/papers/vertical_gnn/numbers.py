"""What ternary rows of a user table prove."""

from __future__ import annotations

from collections.abc import Iterator

from fedrec_auditor.targets.declarations.entry import Pair
from fedrec_auditor.targets.papers.vertical_gnn.systems.vertical_gnn import VerticalGnn


def shown(numbers: int, steps: int = 1) -> float:
    """Chance that one of so many numbers at the threshold is not sent as 0, in so many steps."""
    return 1.0 - (1.0 - VerticalGnn().delta) ** (numbers * steps)


def rows() -> Iterator[Pair]:
    """Of one step, and of ten."""
    width = VerticalGnn().dimension
    yield 0.0, shown(width), {"name": "one step"}
    yield 0.0, shown(width, 10), {"name": "ten steps"}
