"""Two users who differ in one interaction, and the bit of it that the server receives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.statements.scope import Horizon, Unit, Vantage, any_pair
from fedrec_auditor.auditor.demonstrations.base import DistinguishingGame
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.systems.base import Population
from fedrec_auditor.targets.systems.dplcf.parts.item_knn import FlippedKnn

_POPULATION = Population(n_users=2, n_items=2)
_SCOPE = any_pair(Unit.INTERACTION, Vantage.SERVER, Horizon.TRAINING)


@dataclass(frozen=True, slots=True)
class _FirstBit:
    """What a device uploads for item 0; both users hold item 1, and one of them item 0."""

    system: FlippedKnn

    def __call__(self, world: int, size: int, rng: np.random.Generator) -> NDArray[np.int8]:
        profile = Interactions.of(np.array([[1.0 - world, 1.0]]), name="neighbours")
        bits = self.system.upload(profile, None, rng, size).components["bits"]
        return np.asarray(bits.dense(np.arange(size))[:, 0].astype(np.int8))


def one_bit(system: FlippedKnn, samples: int) -> DistinguishingGame:
    """The claim for one interaction against the bit that is uploaded for it."""
    return DistinguishingGame.against(
        system,
        _POPULATION,
        names=("item 0 in the history", "item 0 not in the history"),
        scope=_SCOPE,
        draw=_FirstBit(system),
        statistic="the bit received for item 0",
        samples=samples,
    )
