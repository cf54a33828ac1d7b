"""Numbers that the code of FedNewsRec relies on, beside those found here."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fedrec_auditor.targets.datasets.synthetic import Synthetic
from fedrec_auditor.targets.declarations.entry import Pair
from fedrec_auditor.targets.papers.fednewsrec.systems.fednewsrec import FedNewsRec


def counts() -> Iterator[Pair]:
    """Of how many senders of a round the count is the length of the history."""
    data = Synthetic(n_users=943, n_items=200, profile=20).load()
    system = FedNewsRec(rounds=1, cohort=943)
    (one,) = system.run(data, np.random.default_rng(0)).transcript.rounds
    told = one.uploads.components["count"].dense(np.arange(943))
    yield 0.0, float((told == np.diff(data.ratings.indptr)[one.uploads.users]).mean())
