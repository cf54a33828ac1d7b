"""Many runs of one server step of DP-PrivRec side by side: the model has an axis for the runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.targets.components import Dense
from fedrec_auditor.targets.systems.privrec.dp_privrec import BIT, CLIP, DpPrivRec
from fedrec_auditor.targets.transcript import Broadcast, Uploads


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
    uploads = Uploads(np.arange(clients), {name: Dense(part) for name, part in messages.items()})
    stepped = system.step(copies, uploads, rng)
    return {name: part for name, part in stepped.items() if name != CLIP}


def dense(uploads: Uploads) -> dict[str, NDArray[Any]]:
    """Every component of these messages, (n, *shape), the bit last."""
    every = np.arange(len(uploads.users))
    found = {name: part.dense(every) for name, part in uploads.components.items()}
    return found | {BIT: found.pop(BIT)}
