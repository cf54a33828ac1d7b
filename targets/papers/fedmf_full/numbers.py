"""Numbers of FedMF's messages, beside those counted here."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.declarations.entry import Pair
from fedrec_auditor.targets.papers.fedmf_full.systems.fedmf_full import FedMfFull
from fedrec_auditor.targets.papers.fedmf_full.systems.fedmf_part import FedMfPart

_ITEMS = 40
_RATED = (1, 20, 40)


def _on_the_wire(system: FedMfFull | FedMfPart) -> tuple[NDArray[np.bool_], int]:
    """Which rows three users send in a training's second round, (3, 40), and a row's numbers."""
    rated = np.arange(_ITEMS) < np.array(_RATED)[:, None]
    run = system.shortened(2).run(Interactions.of(rated * 4.0), np.random.default_rng(0))
    part = run.transcript.rounds[-1].uploads.components["item"]
    return part.sent(np.arange(len(_RATED))), part.shape[1]


def sent(system: FedMfFull | FedMfPart | None = None) -> Iterator[Pair]:
    """Numbers on the wire of users who rated little and much, in a training's second round."""
    rows, width = _on_the_wire(system or FedMfFull())
    for rated, count in zip(_RATED, rows.sum(axis=1), strict=True):
        yield 4000.0, float(count * width), {"rated": rated}


def shown(system: FedMfFull | FedMfPart | None = None) -> Iterator[Pair]:
    """Rows on the wire are those of the items that a user of 20 ratings rated."""
    rows = _on_the_wire(system or FedMfPart())[0][1]
    yield 1.0, 2.0 * float(rows[:20].sum()) / float(rows.sum() + 20)
