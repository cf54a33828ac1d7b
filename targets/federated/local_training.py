"""Local training of many devices in blocks: draws random numbers, then runs compiled code."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.targets.components import (
    Component,
    Dense,
    Ints,
    Kind,
    OverlaidTables,
    RandomizedMessages,
    Rows,
)
from fedrec_auditor.targets.compute import Compute, iter_blocks, one_thread
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.federated.base import Clients, LocalTraining
from fedrec_auditor.targets.streams import Streams

if TYPE_CHECKING:
    from fedrec_auditor.targets.federated import kernel
    from fedrec_auditor.targets.federated.minibatch import KernelSettings

# Before it trains, a device draws its negatives once, and an order of its examples per epoch.
#
# Every draw depends only on the device's own stream and items. A batch of devices therefore draws
# the numbers that each device would draw alone, and every way of training uses the same draws.
# Negatives are drawn without replacement, so every example is a different item: the rows that a
# device trains are its examples, and it visits each of them once per epoch.

_NEGATIVES = 0
_LOW = np.uint64((1 << 24) - 1)  # low bits of a random key: its position, which breaks ties
_BLOCK = 1 << 21  # maximum number of keys in memory


@dataclass(frozen=True, slots=True)
class Examples:
    """Training examples of devices: own items and negatives, in ascending order of items.

    ``indptr``: the examples of device i begin at ``indptr[i]`` and end before ``indptr[i + 1]``.
    ``ids``: item of each example (nnz,).
    ``is_positive``: whether the device has an interaction with the item (nnz,).
    """

    indptr: NDArray[np.int64]
    ids: NDArray[np.int32]
    is_positive: NDArray[np.bool_]

    @property
    def n_examples(self) -> NDArray[np.int64]:
        """Number of examples of each device, shape (n,)."""
        return np.diff(self.indptr)


def draw_examples(interactions: Interactions, streams: Streams, negatives: int) -> Examples:
    """Draws ``negatives`` negatives per interaction of each device, without replacement.

    A device takes all its negatives if it has fewer (the paper downsamples them, section 2). Time
    is proportional to devices times items. Memory is ``_BLOCK`` keys and the result.
    """
    table, n_items = interactions.ratings, interactions.n_items
    streams = streams.fold_in(_NEGATIVES)
    sizes, ids, positive = [np.zeros(1, dtype=np.int64)], [], []
    for block in iter_blocks(interactions.n_users, n_items, _BLOCK):
        start, end = block.start, block.stop
        held = np.diff(table.indptr[start : end + 1])
        own = np.zeros((end - start, n_items), dtype=np.bool_)
        items = table.indices[table.indptr[start] : table.indptr[end]]
        own[np.repeat(np.arange(end - start), held), items] = True
        keys = _keys(Streams(streams.seeds[block]), n_items)
        keys[own] = ~np.uint64(0)  # the largest key
        wanted = np.minimum(negatives * held, n_items - held)
        ranked = np.sort(keys, axis=1)
        last = ranked[np.arange(end - start), np.maximum(wanted - 1, 0)]
        chosen = own | ((keys <= last[:, None]) & (wanted > 0)[:, None])
        places = np.flatnonzero(chosen)
        sizes.append(np.count_nonzero(chosen, axis=1))
        ids.append((places % n_items).astype(np.int32))
        positive.append(own.ravel()[places])
    return Examples(
        indptr=np.cumsum(np.concatenate(sizes)),
        ids=np.concatenate([np.zeros(0, dtype=np.int32), *ids]),
        is_positive=np.concatenate([np.zeros(0, dtype=np.bool_), *positive]),
    )


def draw_shuffles(streams: Streams, sizes: Ints, epoch: int) -> NDArray[np.int32]:
    """Draws a uniform permutation of positions 0 to size - 1 per device: (n, max(sizes)).

    ``sizes`` (n,) is the number of examples of each device. Positions beyond a device's size
    stay in place.
    """
    width = int(sizes.max(initial=0))
    keys = _keys(streams.fold_in(2 * epoch + 1), width)
    padding = np.arange(width) >= sizes[:, None]
    keys[padding] |= ~_LOW
    keys.sort(axis=1)
    return (keys & _LOW).astype(np.int32)


def draw_linear_term(
    streams: Streams, local: LocalTraining, shapes: dict[str, tuple[int, ...]], name: str
) -> NDArray[np.float32]:
    """Draws the coefficients of the linear term for the component ``name``: (n, *shape)."""
    from fedrec_auditor.targets.noise_kernel import add_laplace

    seeds = _linear_streams(streams, shapes, name).seeds
    zeros = np.zeros((len(streams), int(np.prod(shapes[name]))), dtype=np.float32)
    drawn = np.empty_like(zeros)
    add_laplace(zeros, seeds, 1.0, local.linear_scales[name], drawn)
    return drawn.reshape(len(streams), *shapes[name])


def draw_linear_rows(
    streams: Streams, local: LocalTraining, shapes: dict[str, tuple[int, ...]], examples: Examples
) -> NDArray[np.float32]:
    """Draws the coefficients of the linear term for the item rows of the examples: (nnz, d).

    The coefficient of entry k of an item's row is draw item * d + k of the device's stream. The
    result is empty, (0, d), if the items have no such term.
    """
    if "item" not in local.linear_scales:
        return np.zeros((0, shapes["item"][1]), dtype=np.float32)
    from fedrec_auditor.targets.noise_kernel import add_laplace_rows

    seeds = _linear_streams(streams, shapes, "item").seeds
    zeros = np.zeros((len(examples.ids), shapes["item"][1]), dtype=np.float32)
    drawn = np.empty_like(zeros)
    ids = examples.ids.astype(np.int64)
    add_laplace_rows(zeros, examples.indptr, ids, seeds, 1.0, local.linear_scales["item"], drawn)
    return drawn


def _linear_streams(streams: Streams, shapes: dict[str, tuple[int, ...]], name: str) -> Streams:
    return streams.fold_in(2 * list(shapes).index(name) + 2)


def _keys(streams: Streams, count: int) -> NDArray[np.uint64]:
    """Distinct random keys (n, count). The low bits of each are its position."""
    return (streams.random_bits(count) & ~_LOW) | np.arange(count, dtype=np.uint64)


class NeighbourUse(IntEnum):
    """Use of the rows of the device's own items in the embedding of its user."""

    IGNORED = 0  # u = z_u
    ADDED = 1  # u = z_u + mean z_v
    CONVOLVED = 2  # u = ReLU(W2 (z_u + W1 mean z_v) + b)


@dataclass(frozen=True, slots=True)
class TrainJob:
    """Devices to train in one call.

    ``shapes``: shape of each component of the model.
    ``local``: settings of the local training.
    ``streams``: random streams of the devices.
    ``examples``: training examples of the devices.
    ``tables``: data of the devices, and their parameters, which are trained in place.
    ``settings``: settings of the compiled kernel.
    ``moments``: moments of Adam, empty if one call of the kernel runs all epochs; None without
        Adam.
    """

    shapes: dict[str, tuple[int, ...]]
    local: LocalTraining
    streams: Streams
    examples: Examples
    tables: kernel.DeviceTables
    settings: KernelSettings
    moments: kernel.AdamMoments | None

    def iter_blocks(self, bound: int) -> Iterator[NDArray[np.int64]]:
        """Yields blocks of devices of similar size, with at most ``bound`` examples after padding.

        A block's padded number of examples is its number of devices times the largest number of
        examples. Devices without examples are left out. A block has at least one device.
        """
        sizes = self.examples.n_examples
        order = np.argsort(sizes, kind="stable")[::-1]
        order = order[sizes[order] > 0]
        while len(order):
            count = max(1, bound // int(sizes[order[0]]))
            yield np.sort(order[:count])
            order = order[count:]


def named(
    theta: NDArray[np.float32], shapes: dict[str, tuple[int, ...]]
) -> dict[str, NDArray[np.float32]]:
    """Returns views of ``theta`` (n, P) by component.

    ``theta`` holds all parameters of each device except the item rows.
    """
    out, start = {}, 0
    for name, shape in shapes.items():
        if name != "item":
            end = start + int(np.prod(shape))
            out[name] = theta[:, start:end].reshape(len(theta), *shape)
            start = end
    return out


# Purpose of a device's random stream for the noise after an epoch, unlike all others above.
_NOISE = 1 << 32
# Maximum number of entries in the visiting orders of a block of devices.
_ORDERED = 1 << 18


def train_local(
    model: dict[str, NDArray[np.float32]],
    clients: Clients,
    local: LocalTraining,
    compute: Compute,
    *,
    neighbours: NeighbourUse,
    deep: bool,
    squared: bool,
) -> dict[str, Component]:
    """Trains the models of all devices: the item rows of their examples, and all other components.

    model: the broadcast model
    clients: the devices
    local: settings of the local training
    compute: threads
    neighbours: use of the item rows in a user's embedding
    deep: whether an MLP scores items, instead of a dot product
    squared: whether the loss is the squared error, instead of the cross-entropy

    Memory: the result (twice with a linear term, three times with Adam and noise between epochs),
    and the arrays of one block of devices. Between epochs, all parameters and trained rows pass
    through ``local.noise``. The noise of the remaining rows is drawn again whenever it is read.
    """
    work = _work(model, clients, local, int(neighbours), deep, squared)
    if local.epoch_noise:
        for epoch in range(local.epochs):
            if epoch:
                _disturb(work, epoch - 1)
            _run(work, range(epoch, epoch + 1), compute)
    else:
        _run(work, range(local.epochs), compute)
    out: dict[str, Component] = {
        name: Dense(values, Kind.MODEL, local.learning_rate)
        for name, values in named(work.tables.dense_theta, work.shapes).items()
    }
    rows = Rows(
        indptr=work.examples.indptr,
        row_ids=work.examples.ids,
        values=work.tables.item_rows,
        n_rows=len(model["item"]),
        kind=Kind.MODEL,
        rate=local.learning_rate,
        rest=model["item"],
    )
    out["item"] = (
        rows if "item" not in local.epoch_noise else OverlaidTables(_disturbed(work, rows), rows)
    )
    return {name: out[name] for name in model}


def _work(
    model: dict[str, NDArray[np.float32]],
    clients: Clients,
    local: LocalTraining,
    neighbours: int,
    deep: bool,
    squared: bool,
) -> TrainJob:
    """Draws the random numbers of the devices before they train, and their initial parameters."""
    from fedrec_auditor.targets.federated import kernel
    from fedrec_auditor.targets.federated.minibatch import KernelSettings

    shapes = {name: array.shape for name, array in model.items()}
    objective = clients.linear_streams or clients.streams
    examples = draw_examples(clients.interactions, clients.streams, local.negatives)
    dense = [name for name in model if name != "item"]
    first = np.concatenate([model[name].ravel() for name in dense])
    tables = kernel.DeviceTables(
        is_positive=examples.is_positive,
        features=np.ascontiguousarray(clients.features, dtype=np.float32),
        dense_theta=np.repeat(first[None], len(clients), axis=0),
        item_rows=model["item"][examples.ids],
        linear_theta=_linear_term(objective, local, shapes, dense),
        row_coefficients=draw_linear_rows(objective, local, shapes, examples),
    )
    if clients.user_emb is not None:
        named(tables.dense_theta, shapes)["user.E"][:] = clients.user_emb
    copies = (2 if local.epoch_noise else 0,)
    return TrainJob(
        shapes=shapes,
        local=local,
        streams=clients.streams,
        examples=examples,
        tables=tables,
        settings=KernelSettings(
            neighbours, deep, squared, np.float32(local.learning_rate), local.batch
        ),
        moments=kernel.AdamMoments(
            np.zeros(copies + tables.dense_theta.shape, dtype=np.float32),
            np.zeros(copies + tables.item_rows.shape, dtype=np.float32),
            done=0,
        )
        if local.optimizer == "adam"
        else None,
    )


def _linear_term(
    streams: Streams, local: LocalTraining, shapes: dict[str, tuple[int, ...]], dense: list[str]
) -> NDArray[np.float32]:
    if not set(local.linear_scales) & set(dense):
        return np.zeros((0, 0), dtype=np.float32)
    parts = [
        draw_linear_term(streams, local, shapes, name).reshape(len(streams), -1)
        if name in local.linear_scales
        else np.zeros((len(streams), int(np.prod(shapes[name]))), dtype=np.float32)
        for name in dense
    ]
    return np.concatenate(parts, axis=1)


def _epoch_streams(work: TrainJob, name: str, epoch: int) -> Streams:
    return work.streams.fold_in(_NOISE + epoch).fold_in(list(work.shapes).index(name))


def _disturb(work: TrainJob, epoch: int) -> None:
    """Adds the noise at the end of ``epoch`` to all parameters and trained rows."""
    for name, values in named(work.tables.dense_theta, work.shapes).items():
        if name in work.local.epoch_noise:
            values[:] = work.local.epoch_noise[name](values, _epoch_streams(work, name, epoch))
    if "item" in work.local.epoch_noise:
        streams, examples = _epoch_streams(work, "item", epoch), work.examples
        rows = work.tables.item_rows
        rows[:] = work.local.epoch_noise["item"].noisy_rows(
            rows, streams, examples.indptr, examples.ids
        )


def _disturbed(work: TrainJob, rows: Rows) -> Component:
    """The item table after the noise of all epochs except the last, without any training."""
    none = np.zeros(0, dtype=np.int64)
    table: Component = replace(
        rows, indptr=np.zeros_like(rows.indptr), row_ids=none, values=rows.values[none]
    )
    for epoch in range(work.local.epochs - 1):
        streams = _epoch_streams(work, "item", epoch)
        table = RandomizedMessages(table, work.local.epoch_noise["item"], streams)
    return table


def _run(work: TrainJob, epochs: range, compute: Compute) -> None:
    """Trains all devices of ``work`` in place for these epochs."""
    from fedrec_auditor.targets.federated import kernel

    examples, moments = work.examples, work.moments
    if moments is not None:
        moments = moments._replace(done=epochs.start)

    def run(devices: NDArray[np.int64]) -> None:
        sizes, streams = examples.n_examples[devices], work.streams.take(devices)
        order = np.empty((len(epochs), len(devices), int(sizes.max())), dtype=np.int32)
        for place, epoch in enumerate(epochs):
            order[place] = draw_shuffles(streams, sizes, epoch)
        block = kernel.DeviceBlock(devices, examples.indptr[devices], sizes, order)
        batch = min(work.local.batch, int(sizes.max()))  # scratch arrays have this many rows
        kernel.train_block(block, work.tables, work.settings._replace(batch=batch), moments)

    blocks = work.iter_blocks(_ORDERED // max(1, len(epochs)) // compute.threads)
    # The compiled code calls scipy's BLAS, which must be loaded before it is limited to one thread.
    importlib.import_module("scipy.linalg.cython_blas")
    with one_thread():
        if compute.threads == 1:
            for devices in blocks:
                run(devices)
            return
        with ThreadPoolExecutor(compute.threads) as pool:
            list(pool.map(run, blocks))
