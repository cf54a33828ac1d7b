"""Local collaborative filtering: the server finds neighbouring items, the device scores by them.

The server takes the Jaccard similarity of all pairs of items from the bits that were uploaded, with
or without an estimate of what the flips did to them (equations 5 to 10), and sends every item's
neighbourhood; the device scores items by its own true history (equation 12).
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.targets.components import Floats, Ints
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.mechanisms.bit_flip import BitFlip
from fedrec_auditor.targets.papers.dplcf.systems.parts.collected_bits import (
    CollectedBits,
    FlipBudget,
    flipper,
)
from fedrec_auditor.targets.papers.dplcf.systems.parts.jaccard import neighbourhoods, pair_counts
from fedrec_auditor.targets.settings import Knob, Whole
from fedrec_auditor.targets.systems.base import Model
from fedrec_auditor.targets.systems.system import Trained
from fedrec_auditor.targets.transcript import Uploads


@dataclass(frozen=True, kw_only=True)
class ItemKnn(CollectedBits):
    """Item neighbourhoods from collected bits.

    ``neighbours`` is the neighbourhood size: 20 on MovieLens, 10 on AppUsage.
    """

    neighbours: Whole = 20

    estimated = False
    """Whether similarity is estimated through A^-1, or taken from the bits as they are."""

    @property
    def printed_inverse(self) -> NDArray[np.float64] | None:
        """The paper's A^-1 with its misprints, where a system estimates by that one."""
        return None

    def takes(self, interactions: Interactions) -> dict[str, float]:
        """Pairs of items of every message, which are counted fast (``PackedCounts``)."""
        return {"made": interactions.n_items**2 / 3000}

    def learn(self, uploads: Uploads, rng: np.random.Generator) -> Trained:
        """Every item's neighbours with their similarities; ``rng`` is not drawn from."""
        flip = self.randomizer if self.estimated else None
        p, q = (1.0, 0.0) if flip is None else (flip.p, flip.q)
        both = pair_counts(uploads.components["bits"])
        nearest = neighbourhoods(
            both, len(uploads.users), p, q, self.neighbours, self.printed_inverse
        )
        release = {"neighbours": nearest.items, "similarity": nearest.similarity}
        return Trained(release, {"nearest": nearest.matrix()})

    def score(self, model: Model, interactions: Interactions, users: Ints) -> Floats:
        """Equation 12: the similarities of an item's neighbours that are in the user's history."""
        held = interactions.ratings[users].astype(np.float64)
        held.data[:] = 1.0
        return np.asarray((held @ model.arrays["nearest"].T).toarray())


@dataclass(frozen=True, kw_only=True)
class FlippedKnn(ItemKnn):
    """The same from flipped bits; ``epsilon`` is the budget of one interaction (Tables 2-6: 1)."""

    epsilon: FlipBudget = 1.0

    privacy = Knob(budgets=("epsilon",))

    @property
    @abstractmethod
    def kind(self) -> str:
        """Which flip: "symmetric" or "asymmetric"."""

    @property
    def randomizer(self) -> BitFlip | None:
        """The distribution of one uploaded bit."""
        return flipper(self.kind, self.epsilon)
