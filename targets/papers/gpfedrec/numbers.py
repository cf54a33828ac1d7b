"""Numbers that the code of GPFedRec relies on, beside those found here."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fedrec_auditor.targets.datasets.synthetic import Synthetic
from fedrec_auditor.targets.declarations.entry import Pair
from fedrec_auditor.targets.papers.gpfedrec.systems.gpfedrec import GpFedRec

_SCALE = 0.1
NETWORKS = 10
MADE = Synthetic(n_users=100, n_items=1682, profile=60)
"""The users whose rows are moved."""


def moves() -> Iterator[Pair]:
    """How far own rows move in first messages without noise: the epsilon of Laplace noise on it."""
    data = MADE.load()
    own = data.ratings.toarray() != 0
    moved = []
    for network in range(NETWORKS):
        run = GpFedRec(rounds=1, noise=0.0).run(data, np.random.default_rng(network))
        (sent,) = run.transcript.rounds
        assert sent.broadcast is not None
        change = sent.uploads.components["item"].dense(sent.uploads.users) - sent.broadcast["item"]
        moved.append(np.median(np.abs(change[own]).sum(axis=1)))
    yield 1.0, float(np.median(moved)) / _SCALE
