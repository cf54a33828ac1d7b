"""Two users who differ in one interaction, and the row of its item in what the server receives."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from accountants.scope import Horizon, Unit, Vantage, any_pair
from auditor.demonstrations._asked import claim_in
from auditor.demonstrations.base import Contest
from targets.datasets.base import Interactions
from targets.learners.base import Catalogue
from targets.systems._federated import Federated
from targets.systems.base import Population
from targets.transcript import Broadcast

_ITEMS = 12
_BLOCK = 1 << 14  # messages made at once


@dataclass(frozen=True)
class _Kept:
    """1 if the row of item 0 comes back bit for bit as it was broadcast, else 0.

    Both users hold item 1, and one of them item 0. The server broadcasts the first model that the
    learner draws, but zeros in that row, where a float32 resolves any step.
    """

    system: Federated

    @cached_property
    def profiles(self) -> Interactions:
        """The two users."""
        held = np.zeros((2, _ITEMS))
        held[:, 1] = held[0, 0] = 1.0
        return Interactions.of(held, name="neighbours")

    @cached_property
    def broadcast(self) -> Broadcast:
        """The first model, the same for both."""
        features = self.system.features(self.profiles).shape[1]
        catalogue = Catalogue(n_items=_ITEMS, n_user_features=features)
        model = self.system.learner.initial(catalogue, np.random.default_rng(0))
        model["item"][0] = 0.0
        return model

    def __call__(self, world: int, size: int, rng: np.random.Generator) -> NDArray[np.float64]:
        profile, model = self.profiles.take(np.array([world])), self.broadcast
        found = np.empty(size)
        for start in range(0, size, _BLOCK):
            runs = min(_BLOCK, size - start)
            sent = self.system.upload(profile, model, rng, runs).components["item"]
            row = sent.dense(np.arange(runs))[:, 0]
            found[start : start + runs] = (row == model["item"][0]).all(axis=1)
        return found


def row_kept(system: Federated, samples: int, unit: Unit = Unit.INTERACTION) -> Contest:
    """The claim for one interaction against the row of its item, which tells if it was trained on.

    With embeddings of one number the row is one entry of the upload, of which ``unit`` may speak.
    A device that does not hold the item trains on its row only if it draws it as a negative, 4 of
    the 11 others.
    """
    small = replace(
        system,
        learner=replace(system.learner, dimension=1),  # type: ignore[type-var]
        rounds=1,
        epochs=1,
    )
    contest = _Kept(small)
    population = Population(
        n_users=2, n_items=_ITEMS, n_features=small.features(contest.profiles).shape[1]
    )
    scope = any_pair(unit, Vantage.SERVER, Horizon.ROUND)
    return Contest(
        system=small,
        claim=claim_in(small, population, scope),
        scope=scope,
        delta=0.0,
        worlds=("items 0 and 1 in the history", "item 1 in the history"),
        statistic="whether the row of item 0 came back bit for bit as it was broadcast",
        sample=contest,
        samples=samples,
        population=population,
    )
