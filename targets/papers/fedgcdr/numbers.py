"""What a list of own items and negatives tells in FedGCDR."""

from __future__ import annotations

from collections.abc import Iterator

from fedrec_auditor.targets.declarations.entry import Pair
from fedrec_auditor.targets.papers.fedgcdr.systems.fedgcdr import FedGcdr


def own_items() -> Iterator[Pair]:
    """By their share of a list, and by its order."""
    yield 1.0 / (1 + FedGcdr().negatives), 1.0
