"""Local training of many devices, in blocks of them."""

from __future__ import annotations

import importlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.targets.components import Component, Dense, Kind, Overlaid, Randomized, Rows
from fedrec_auditor.targets.compute import Compute, one_thread
from fedrec_auditor.targets.learners.base import Clients, LocalTraining
from fedrec_auditor.targets.learners.parts.work import (
    Neighbours,
    Work,
    draw_examples,
    draw_linear_rows,
    draw_linear_term,
    draw_order,
    named,
)
from fedrec_auditor.targets.streams import Streams

_NOISE = 1 << 32
"""Purpose of a device's randomness, beyond those of ``minibatches``: the noise after an epoch."""
_ORDERED = 1 << 18
"""Places in the orders of a block of devices."""


def train(
    model: dict[str, NDArray[np.float32]],
    clients: Clients,
    local: LocalTraining,
    compute: Compute,
    *,
    neighbours: Neighbours,
    deep: bool,
    squared: bool,
) -> dict[str, Component]:
    """Every device's model: touched rows of "item", all of the rest.

    Memory: the result (twice with a linear term, thrice with Adam and noise between epochs), and
    what one block of devices needs. Between epochs, every device's parameters and touched rows go
    through ``local.noise``; that of the rows which it does not touch is drawn again when asked for.
    """
    shapes = {name: array.shape for name, array in model.items()}
    streams, objective = clients.streams, clients.objective or clients.streams
    examples = draw_examples(clients.interactions, streams, local.negatives)
    dense = [name for name in model if name != "item"]
    nothing = np.zeros((0, shapes["item"][1]), dtype=np.float32)
    first = np.concatenate([model[name].ravel() for name in dense])
    theta = np.repeat(first[None], len(clients), axis=0)
    if clients.own is not None:
        named(theta, shapes)["user.E"][:] = clients.own
    kept = 2 if local.noise and local.optimizer == "adam" else 0
    work = Work(
        neighbours=neighbours,
        deep=deep,
        squared=squared,
        shapes=shapes,
        local=local,
        streams=streams,
        features=np.ascontiguousarray(clients.features, dtype=np.float32),
        examples=examples,
        theta=theta,
        rows=model["item"][examples.ids],
        linear_term=_linear_term(objective, local, shapes, dense),
        linear_rows=draw_linear_rows(objective, local, shapes, examples)
        if "item" in local.linear_term
        else nothing,
        moments=np.zeros((kept, len(clients), len(first)), dtype=np.float32),
        row_moments=np.zeros((kept, *model["item"][examples.ids].shape), dtype=np.float32),
    )
    if local.noise:
        for epoch in range(local.epochs):
            if epoch:
                _disturb(work, epoch - 1)
            _run(work, range(epoch, epoch + 1), compute)
    else:
        _run(work, range(local.epochs), compute)
    out: dict[str, Component] = {
        name: Dense(values, Kind.MODEL, local.learning_rate)
        for name, values in named(work.theta, shapes).items()
    }
    rows = Rows(
        indptr=examples.indptr,
        ids=examples.ids,
        values=work.rows,
        count=len(model["item"]),
        kind=Kind.MODEL,
        rate=local.learning_rate,
        rest=model["item"],
    )
    out["item"] = rows if "item" not in local.noise else Overlaid(_disturbed(work, rows), rows)
    return {name: out[name] for name in model}


def _linear_term(
    streams: Streams, local: LocalTraining, shapes: dict[str, tuple[int, ...]], dense: list[str]
) -> NDArray[np.float32]:
    if not set(local.linear_term) & set(dense):
        return np.zeros((0, 0), dtype=np.float32)
    parts = [
        draw_linear_term(streams, local, shapes, name).reshape(len(streams), -1)
        if name in local.linear_term
        else np.zeros((len(streams), int(np.prod(shapes[name]))), dtype=np.float32)
        for name in dense
    ]
    return np.concatenate(parts, axis=1)


def _epoch_streams(work: Work, name: str, epoch: int) -> Streams:
    return work.streams.fold_in(_NOISE + epoch).fold_in(list(work.shapes).index(name))


def _disturb(work: Work, epoch: int) -> None:
    """All parameters and touched rows as the device has them at the end of ``epoch``."""
    for name, values in named(work.theta, work.shapes).items():
        if name in work.local.noise:
            values[:] = work.local.noise[name](values, _epoch_streams(work, name, epoch))
    if "item" in work.local.noise:
        streams, examples = _epoch_streams(work, "item", epoch), work.examples
        work.rows[:] = work.local.noise["item"].rows(
            work.rows, streams, examples.indptr, examples.ids
        )


def _disturbed(work: Work, rows: Rows) -> Component:
    """The item table after all epochs but the last, had nothing been trained."""
    none = np.zeros(0, dtype=np.int64)
    table: Component = replace(
        rows, indptr=np.zeros_like(rows.indptr), ids=none, values=rows.values[none]
    )
    for epoch in range(work.local.epochs - 1):
        streams = _epoch_streams(work, "item", epoch)
        table = Randomized(table, work.local.noise["item"], streams)
    return table


def _run(work: Work, epochs: range, compute: Compute) -> None:
    """Trains all devices of ``work`` in place for these epochs."""
    from fedrec_auditor.targets.learners.parts.adam import train_adam
    from fedrec_auditor.targets.learners.parts.fused import train_fused

    local, examples = work.local, work.examples
    adam = local.optimizer == "adam"
    kernel = train_adam if adam else train_fused

    def run(block: NDArray[np.int64]) -> None:
        sizes, streams = examples.sizes[block], work.streams.take(block)
        order = np.empty((len(epochs), len(block), int(sizes.max())), dtype=np.int32)
        for place, epoch in enumerate(epochs):
            order[place] = draw_order(streams, sizes, epoch)
        kernel(
            block,
            examples.indptr[block],
            sizes,
            order,
            examples.positive,
            work.features,
            work.theta,
            work.rows,
            work.linear_term,
            work.linear_rows,
            int(work.neighbours),
            work.deep,
            work.squared,
            np.float32(local.learning_rate),
            min(local.batch, int(sizes.max())),  # what a step holds is laid out for so many
            *((work.moments, work.row_moments, epochs.start) if adam else ()),
        )

    blocks = work.blocks(_ORDERED // max(1, len(epochs)) // compute.threads)
    # compiled products are those of scipy's BLAS, which must be loaded to be held at one thread
    importlib.import_module("scipy.linalg.cython_blas")
    with one_thread():
        if compute.threads == 1:
            for block in blocks:
                run(block)
            return
        with ThreadPoolExecutor(compute.threads) as pool:
            list(pool.map(run, blocks))
