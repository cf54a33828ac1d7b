"""DP-PrivRec: many steps side by side are the system's step, and the step size is not paid for.

Entry 12: at alpha3 = 16 the multiplier of the update is z / (alpha3 sqrt(1-h)) = z/8.8, not z, for
noise is added after the step size. Random figures are refused beyond 5.5 standard
deviations (4e-8).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fedrec_auditor.targets.components import Dense, Kind
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.papers.privrec.systems.privrec_systems import BIT, CLIP, DpPrivrec
from fedrec_auditor.targets.transcript import Broadcast, Uploads
from tests.two_worlds import in_blocks

RUNS, ITEMS, BLOCK = 10_000, 4, 1 << 14


def small(*, multiplier: float, server_rate: float = 1.0, as_published: bool = True) -> DpPrivrec:
    """A round of all of two clients, with a network of some 200 weights and one local epoch."""
    return DpPrivrec(
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
    system: DpPrivrec,
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
class Moved:
    """How far the next model lies from this one, along the change that user 0 would make of it.

    User 0 holds all items, or none; user 1 holds none. Whoever holds all draws no negatives and has
    one minibatch: changes are functions of the data, and the devices' code computes them once.
    """

    system: DpPrivrec

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

        return in_blocks(size, BLOCK, block)

    @staticmethod
    def _held(world: int) -> Interactions:
        held = np.zeros((2, ITEMS))
        held[0] = 1.0 - world
        return Interactions.of(held, name="neighbours")


def test_without_noise_every_copy_takes_the_systems_step() -> None:
    """Noise of multiplier 1e-12 is below what a float32 holds."""
    system = small(multiplier=1e-12, server_rate=3.0)
    held = Interactions.of(np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0]]), name="two")
    model = system.first(held, np.random.default_rng(0))
    runs = [system.upload(held, model, np.random.default_rng(seed)) for seed in range(3)]
    messages = {
        name: np.stack([dense(one)[name] for one in runs], axis=1) for name in runs[0].components
    }
    found = following(
        system, model, messages | {BIT: messages[BIT][:, 0]}, np.random.default_rng(1)
    )
    assert CLIP not in found
    for run, one in enumerate(runs):
        expected = system.step(model, one, np.random.default_rng(1))
        for name, part in found.items():
            np.testing.assert_allclose(part[run], expected[name], rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(("as_published", "scale"), [(True, 16), (False, 1)])
def test_the_step_size_is_not_paid_for(as_published: bool, scale: int) -> None:
    """alpha3 S / M in units of (2 S z / M) / sqrt(1 - h); repaired, the step multiplies the noise.

    An empty history moves nothing: these users are half as far apart as two can be.
    """
    system = small(multiplier=1.0, server_rate=16.0, as_published=as_published)
    draw = Moved(system)
    near, far = (draw(w, RUNS, np.random.default_rng(w)) for w in (0, 1))
    expected = scale * math.sqrt(0.3) / 2
    apart = (near.mean() - far.mean()) / far.std()
    assert abs(apart - expected) < 5.5 * math.sqrt((2 + expected**2 / 2) / RUNS)
    assert abs(near.std() / far.std() - 1) < 5.5 / math.sqrt(RUNS)
