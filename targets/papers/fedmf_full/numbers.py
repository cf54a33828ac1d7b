"""Numbers of FedMF's messages, beside those counted here."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.declarations.entry import Pair
from fedrec_auditor.targets.papers.fedmf_full.systems.fedmf_full import FedMfFull
from fedrec_auditor.targets.papers.fedmf_full.systems.fedmf_part import FedMfPart
from fedrec_auditor.targets.transcript import Uploads

_ITEMS = 40


def _message(system: FedMfFull | FedMfPart, rated: int) -> Uploads:
    """The first message of a user of so many ratings."""
    one = Interactions.of(np.where(np.arange(_ITEMS) < rated, 4.0, 0.0)[None])
    table = {"item": np.full((_ITEMS, system.dimension), system.first, np.float32)}
    return system.upload(one, table, np.random.default_rng(0))


def sent() -> Iterator[Pair]:
    """Numbers on the wire of users who rated little and much."""
    for rated in (1, 20, 40):
        part = _message(FedMfFull(), rated).components["item"]
        rows = int(part.sent(np.arange(1)).sum())
        yield 4000.0, float(rows * part.shape[1]), {"rated": rated}


def shown() -> Iterator[Pair]:
    """Rows on the wire are those of the rated items."""
    part = _message(FedMfPart(), 20).components["item"]
    rows = part.sent(np.arange(1))[0]
    yield 1.0, 2.0 * float(rows[:20].sum()) / float(rows.sum() + 20)
