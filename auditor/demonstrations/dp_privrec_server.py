"""DP-PrivRec: what clients send is not perturbed, so the server reads off whose items they are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from accountants.scope import Adjacency, Horizon, Scope, Unit, Vantage
from auditor.demonstrations._asked import claim_in
from auditor.demonstrations._privrec_steps import dense, following, small
from auditor.demonstrations.base import Contest
from targets.datasets.base import Interactions
from targets.systems.base import Population
from targets.systems.dp_privrec import BIT, DpPrivRec
from targets.transcript import Broadcast

_ITEMS = 12
_POPULATION = Population(n_users=2, n_items=_ITEMS)
_SERVER = Scope(
    unit=Unit.USER,
    adjacency=Adjacency.REPLACE,
    vantage=Vantage.SERVER,
    horizon=Horizon.TRAINING,
)
_DELTA = 1e-6
_BLOCK = 1 << 10  # rounds played at once


@dataclass(frozen=True)
class _Row:
    """How far the row of item 0 moves: in user 0's message, or from one broadcast to the next.

    User 0 holds items 0 and 1, or 2 and 3; user 1 holds the last two.
    """

    system: DpPrivRec
    vantage: Vantage

    @cached_property
    def model(self) -> Broadcast:
        """The first model and the clipping bound."""
        return self.system.first(self._held(0), np.random.default_rng(0))

    def __call__(self, world: int, size: int, rng: np.random.Generator) -> NDArray[np.float64]:
        found, held = np.empty(size), self._held(world)
        for start in range(0, size, _BLOCK):
            runs = min(_BLOCK, size - start)
            messages = {
                name: part.reshape(2, runs, *part.shape[1:])
                for name, part in dense(self.system.upload(held, self.model, rng, runs)).items()
            }
            if self.vantage is Vantage.SERVER:
                row = messages["item"][0, :, 0]
            else:
                messages[BIT] = messages[BIT][:, 0]  # nobody reads it; see ``following``
                model = following(self.system, self.model, messages, rng)
                row = model["item"][:, 0] - self.model["item"][0]
            found[start : start + runs] = np.linalg.norm(row, axis=1)
        return found

    @staticmethod
    def _held(world: int) -> Interactions:
        held = np.zeros((2, _ITEMS))
        held[0, 2 * world : 2 * world + 2] = held[1, -2:] = 1.0
        return Interactions.of(held, name="neighbours")


@dataclass(frozen=True, kw_only=True)
class DpPrivRecServer:
    """The server receives every change as it is: the row of a held item is never zero in it.

    The introduction has what clients send perturbed. The control asks the same of the next
    broadcast, which is noisy. With z = 4 the claimed epsilon is small enough to be refuted by
    counting; the true one is infinite.
    """

    samples: int = 4_000
    multiplier: float = 4.0

    target = "dp-privrec"
    entries = ("16",)
    blockwise = False

    def violation(self) -> Contest:
        """Of what the server receives."""
        return self._contest(Vantage.SERVER, "section 1,")

    def control(self) -> Contest:
        """Of what the server sends out."""
        return self._contest(Vantage.PEERS, "section 4.4")

    def _contest(self, vantage: Vantage, place: str) -> Contest:
        system, scope = small(multiplier=self.multiplier), replace(_SERVER, vantage=vantage)
        where = "in user 0's message" if vantage is Vantage.SERVER else "to the next broadcast"
        return Contest(
            system=system,
            claim=claim_in(system, _POPULATION, scope, _DELTA, place),
            scope=scope,
            delta=_DELTA,
            worlds=("user 0 holds items 0 and 1", "user 0 holds items 2 and 3"),
            statistic=f"how far the row of item 0 moves {where}",
            sample=_Row(system, vantage),
            samples=self.samples,
            population=_POPULATION,
        )
