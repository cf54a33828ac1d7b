"""Numbers that the code of FedNewsRec relies on, beside those found here."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.declarations.entry import Pair
from fedrec_auditor.targets.papers.fednewsrec.systems.fednewsrec import FedNewsRec

_USERS, _ITEMS = 943, 200


def counts(system: FedNewsRec | None = None) -> Iterator[Pair]:
    """Users who clicked from 1 item to all: of how many a message's count says how many it was."""
    rng = np.random.default_rng(0)
    clicks = rng.integers(1, _ITEMS + 1, size=_USERS)
    clicked = np.argsort(rng.random((_USERS, _ITEMS)), axis=1) < clicks[:, None]
    system = system or FedNewsRec(rounds=1, cohort=_USERS)
    (one,) = system.run(Interactions.of(clicked * 1.0), rng).transcript.rounds
    told = one.uploads.components["count"].dense(np.arange(len(one.uploads.users)))
    yield 0.0, float((told == clicks[one.uploads.users]).mean())
