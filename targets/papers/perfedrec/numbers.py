"""Numbers that the code of PerFedRec relies on, beside those found here."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fedrec_auditor.targets.declarations.entry import Pair
from fedrec_auditor.targets.papers.perfedrec.systems.perfedrec import PerFedRec
from fedrec_auditor.targets.protections.laplace_rows import LaplaceRows

_MESSAGES = 2000


def bare() -> Iterator[Pair]:
    """Rows drawn as in the code: how often one row is not among them, and what is sent of it."""
    rng, noise = np.random.default_rng(0), PerFedRec().protection
    assert isinstance(noise, LaplaceRows)
    for name, items in (("MovieLens 100K", 1682), ("MovieLens 1M", 3706)):
        drawn = rng.integers(0, items, size=(_MESSAGES, noise.noisy_rows))
        yield 0.0, float((drawn != 0).all(axis=1).mean()), {"name": name}
