"""DP-PrivRec: noise is added after the step size, so a larger step is not paid for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.statements.scope import Adjacency, Horizon, Scope, Unit, Vantage
from fedrec_auditor.auditor.demonstrations.base import DistinguishingGame
from fedrec_auditor.auditor.demonstrations.parts.asked import claim_in
from fedrec_auditor.auditor.demonstrations.parts.privrec_steps import dense, following, small
from fedrec_auditor.auditor.worlds import Worlds
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.systems.base import Population
from fedrec_auditor.targets.systems.privrec.dp_privrec import BIT, DpPrivRec
from fedrec_auditor.targets.transcript import Broadcast

_ITEMS = 4
_POPULATION = Population(n_users=2, n_items=_ITEMS)
_SCOPE = Scope(
    unit=Unit.USER,
    adjacency=Adjacency.REPLACE,
    vantage=Vantage.PEERS,
    horizon=Horizon.ROUND,
)
_DELTA = 1e-6
_BLOCK = 1 << 14  # steps taken side by side


@dataclass(frozen=True)
class _Moved:
    """How far the next model lies from this one, along the change that user 0 would make of it.

    User 0 holds all items, or none; user 1 holds none. Whoever holds all draws no negatives and has
    one minibatch: changes are functions of the data, and the devices' code computes them once.
    """

    system: DpPrivRec

    @cached_property
    def model(self) -> Broadcast:
        """The first model and the clipping bound."""
        return self.system.first(self._held(0), np.random.default_rng(0))

    @cached_property
    def sent(self) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[Any]]]:
        """What both users send, in either world."""
        one, other = (
            dense(self.system.upload(self._held(world), self.model, np.random.default_rng(0)))
            for world in (0, 1)
        )
        return one, other

    def __call__(self, world: int, size: int, rng: np.random.Generator) -> NDArray[np.float64]:
        found, toward = np.empty(size), self.sent[0]
        for start in range(0, size, _BLOCK):
            runs = min(_BLOCK, size - start)
            messages = {
                name: part
                if name == BIT
                else np.broadcast_to(part[:, None], (len(part), runs, *part.shape[1:]))
                for name, part in self.sent[world].items()
            }
            moved = np.zeros(runs)
            for name, part in following(self.system, self.model, messages, rng).items():
                moved += (part - self.model[name]).reshape(runs, -1) @ toward[name][0].ravel()
            found[start : start + runs] = moved
        return found

    @staticmethod
    def _held(world: int) -> Interactions:
        held = np.zeros((2, _ITEMS))
        held[0] = 1.0 - world
        return Interactions.of(held, name="neighbours")


@dataclass(frozen=True, kw_only=True)
class DpPrivRecStep:
    """At alpha3 = 16 the multiplier of the update is z / (alpha3 sqrt(1-h)) = z/8.8, not z.

    Whoever sees two broadcasts projects their difference on the change that user 0 would make. An
    empty history moves nothing, so that these two users are half as far apart as two can be: 4.4 in
    units of the noise. The control is the same round with the step size before the noise.
    """

    samples: int = 50_000
    server_rate: float = 16.0
    multiplier: float = 1.0

    target = "dp-privrec"
    entries = ("12",)
    blockwise = False

    def violation(self) -> DistinguishingGame:
        """Line 9 as printed."""
        return self._game(as_published=True)

    def control(self) -> DistinguishingGame:
        """The step size multiplies the noise too."""
        return self._game(as_published=False)

    def _game(self, as_published: bool) -> DistinguishingGame:
        system = small(
            multiplier=self.multiplier, server_rate=self.server_rate, as_published=as_published
        )
        return DistinguishingGame(
            system=system,
            claim=claim_in(system, _POPULATION, _SCOPE, _DELTA, "section 2.3.4"),
            worlds=Worlds(
                names=("user 0 holds all four items", "user 0 holds none"),
                scope=_SCOPE,
                draw=_Moved(system),
                statistic="the move from one broadcast to the next, along the change of user 0",
            ),
            delta=_DELTA,
            samples=self.samples,
            population=_POPULATION,
        )
