"""DP-PrivRec: noise is added after the step size, so a larger step is not paid for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.statements.scope import Adjacency, Horizon, Scope, Unit, Vantage
from fedrec_auditor.targets.components import Dense, Kind
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.declarations.demonstration import (
    Demonstration,
    DistinguishingGame,
    in_blocks,
)
from fedrec_auditor.targets.papers.privrec.systems.dp_privrec import BIT, CLIP, DpPrivRec
from fedrec_auditor.targets.systems.base import Population
from fedrec_auditor.targets.transcript import Broadcast, Uploads

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


def small(*, multiplier: float, server_rate: float = 1.0, as_published: bool = True) -> DpPrivRec:
    """A round of all of two clients, with a network of some 200 weights and one local epoch."""
    return DpPrivRec(
        rounds=1,
        clients=2,
        server_rate=server_rate,
        multiplier=multiplier,
        initial_clip=0.05,
        embedding=1,
        width=16,
        local_epochs=1,
        negatives=1,
        as_published=as_published,
    )


def following(
    system: DpPrivRec,
    model: Broadcast,
    messages: Mapping[str, NDArray[Any]],
    rng: np.random.Generator,
) -> dict[str, NDArray[Any]]:
    """Every component of the next model but the bound, (runs, *shape), by the system's ``step``.

    ``messages`` hold what was sent in every run: (clients, runs, *shape), but of the bit one for
    all runs, (clients,). The noise of its share is therefore the same in all of them.
    """
    clients, runs = next(iter(messages.values())).shape[:2]
    copies = {
        name: part if name == CLIP else np.broadcast_to(part, (runs, *np.shape(part)))
        for name, part in model.items()
    }
    uploads = Uploads(
        np.arange(clients), {name: Dense(part, Kind.CHANGE) for name, part in messages.items()}
    )
    stepped = system.step(copies, uploads, rng)
    return {name: part for name, part in stepped.items() if name != CLIP}


def dense(uploads: Uploads) -> dict[str, NDArray[Any]]:
    """Every component of these messages, (n, *shape), the bit last."""
    every = np.arange(len(uploads.users))
    found = {name: part.dense(every) for name, part in uploads.components.items()}
    return found | {BIT: found.pop(BIT)}


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
        toward = self.sent[0]

        def block(runs: int) -> NDArray[np.float64]:
            messages = {
                name: part
                if name == BIT
                else np.broadcast_to(part[:, None], (len(part), runs, *part.shape[1:]))
                for name, part in self.sent[world].items()
            }
            moved = np.zeros(runs)
            for name, part in following(self.system, self.model, messages, rng).items():
                moved += (part - self.model[name]).reshape(runs, -1) @ toward[name][0].ravel()
            return moved

        return in_blocks(size, _BLOCK, block)

    @staticmethod
    def _held(world: int) -> Interactions:
        held = np.zeros((2, _ITEMS))
        held[0] = 1.0 - world
        return Interactions.of(held, name="neighbours")


def dp_privrec_step(
    *, samples: int = 50_000, server_rate: float = 16.0, multiplier: float = 1.0
) -> Demonstration:
    """Noise is added after the step size, so a larger step is not paid for.

    At alpha3 = 16 the multiplier of the update is z / (alpha3 sqrt(1-h)) = z/8.8, not z.

    Whoever sees two broadcasts projects their difference on the change that user 0 would make. An
    empty history moves nothing, so that these two users are half as far apart as two can be: 4.4 in
    units of the noise. The control is the same round with the step size before the noise.
    """

    def side(violates: bool) -> DistinguishingGame:
        """Line 9 as printed; in the control the step size multiplies the noise, too."""
        system = small(multiplier=multiplier, server_rate=server_rate, as_published=violates)
        return DistinguishingGame(
            system=system,
            population=_POPULATION,
            worlds=("user 0 holds all four items", "user 0 holds none"),
            scope=_SCOPE,
            draw=_Moved(system),
            statistic="the move from one broadcast to the next, along the change of user 0",
            samples=samples,
            claim="12",
            delta=_DELTA,
            blockwise=False,
        )

    return Demonstration.of(("12",), side)


DEMONSTRATIONS = {"dp-privrec-step": dp_privrec_step}
