"""Numbers that the code of PerFedRec relies on, beside those found here."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.declarations.entry import Pair
from fedrec_auditor.targets.learners.light_gcn import LightGcn
from fedrec_auditor.targets.papers.perfedrec.systems.perfedrec import PerFedRec
from fedrec_auditor.targets.protections.laplace_rows import LaplaceRows

_DEVICES, _OWN, _WIDTH = 200, 50, 8
_CATALOGUES = {"MovieLens 100K": 1682, "MovieLens 1M": 3706}
_STEP = 2e-4  # a step is 1e-4 a number; the mean size of 8 numbers of noise is below once in 10^13


def bare(protection: LaplaceRows | None = None) -> Iterator[Pair]:
    """Rows of own items in messages of a round: how many differ by no more than a step."""
    learner = LightGcn(dimension=_WIDTH, edge_dropout=0.1)
    system = PerFedRec(learner=learner, protection=protection or LaplaceRows())
    for name, items in _CATALOGUES.items():
        rng = np.random.default_rng(0)
        own = np.argsort(rng.random((_DEVICES, items)), axis=1) < _OWN
        (one,) = system.shortened(1).run(Interactions.of(own * 1.0), rng).transcript.rounds
        assert one.broadcast is not None
        rows = np.nonzero(own[one.uploads.users])[1].reshape(-1, _OWN)
        sent = one.uploads.components["item"].picked(np.arange(len(rows)), rows)
        moved = np.abs(sent - one.broadcast["item"][rows]).mean(axis=2)
        yield 0.0, float((moved < _STEP).mean()), {"name": name}
