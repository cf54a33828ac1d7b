"""Numbers that the code of GPFedRec relies on, beside those found here."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fedrec_auditor.targets.datasets.synthetic import Synthetic
from fedrec_auditor.targets.declarations.entry import Pair
from fedrec_auditor.targets.papers.gpfedrec.systems.gpfedrec import GpFedRec

_SCALE = 0.1


def moves() -> Iterator[Pair]:
    """How far own rows move in first messages without noise: the epsilon of Laplace noise on it."""
    data = Synthetic(n_users=100, n_items=1682, profile=60).load()
    (one,) = GpFedRec(rounds=1, noise=0.0).run(data, np.random.default_rng(0)).transcript.rounds
    assert one.broadcast is not None
    change = one.uploads.components["item"].dense(one.uploads.users) - one.broadcast["item"]
    own = change[data.ratings.toarray() != 0]
    yield 1.0, float(np.median(np.abs(own).sum(axis=1))) / _SCALE
