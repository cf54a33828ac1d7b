"""Local training of many devices: which way it is computed, and in which blocks of devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from targets.components import Component, Dense, Rows
from targets.compute import Compute
from targets.learners._minibatches import draw_examples
from targets.learners.base import Clients, LocalTraining

if TYPE_CHECKING:
    from targets.learners._embeddings import Embeddings


def train(
    learner: Embeddings,
    model: dict[str, NDArray[np.float32]],
    clients: Clients,
    local: LocalTraining,
    compute: Compute,
) -> dict[str, Component]:
    """Every device's model: touched rows of "item", all of the rest.

    Memory: the result, and what the way of training holds of one block of devices.
    """
    examples = draw_examples(clients.interactions, clients.streams, local.negatives)
    rows = model["item"][examples.ids]
    parts: dict[str, NDArray[Any]] = {
        name: np.repeat(array[None], len(clients), axis=0)
        for name, array in model.items()
        if name != "item"
    }
    from targets.learners._batched import train_batched

    train_batched(learner, clients, local, compute, examples, rows, parts)
    out: dict[str, Component] = {name: Dense(values) for name, values in parts.items()}
    out["item"] = Rows(
        indptr=examples.indptr,
        ids=examples.ids,
        values=rows,
        count=len(model["item"]),
        rest=model["item"],
    )
    return {name: out[name] for name in model}
