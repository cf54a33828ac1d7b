"""Local training of many devices: draws of all random numbers, and calls of the compiled code."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.targets import components
from fedrec_auditor.targets.components import Component, Dense, Ints, Payload, SparseRows
from fedrec_auditor.targets.compute import Machine, iter_blocks, limit_to_one_thread, map_in_threads
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.federated.base import Clients, LocalSettings
from fedrec_auditor.targets.streams import Streams

if TYPE_CHECKING:
    from fedrec_auditor.targets.federated import kernel
    from fedrec_auditor.targets.federated.minibatch import KernelSettings

# Before the training, a device draws its negatives once, and one order of its examples per epoch.
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
    """Training examples of n devices: own items and negatives, in ascending order of items.

    ``indptr``: device i has the examples ``indptr[i]`` to ``indptr[i + 1]`` - 1, shape (n + 1,).
    ``item_ids``: item index of each example, shape (nnz,).
    ``is_positive``: whether the device's user interacted with the item, shape (nnz,).
    """

    indptr: NDArray[np.int64]
    item_ids: NDArray[np.int32]
    is_positive: NDArray[np.bool_]

    @property
    def n_examples(self) -> NDArray[np.int64]:
        """Number of examples of each device, shape (n,)."""
        return np.diff(self.indptr)


def draw_examples(interactions: Interactions, streams: Streams, negatives: int) -> Examples:
    """Draws each device's training examples: its own items, and ``negatives`` negatives per own
    item.

    An own item is an item that the device's user interacted with. Negatives are drawn from all
    other items, without replacement, from the device's stream in ``streams``. If there are too few
    other items, all of them are negatives. Source: section 2 of the FedRec paper, which downsamples
    the negatives.
    """
    # Time is proportional to devices times items. Memory is the result and ``_BLOCK`` numbers of 8
    # bytes.
    table, n_items = interactions.ratings, interactions.n_items
    streams = streams.derive(_NEGATIVES)
    sizes, ids, positive = [np.zeros(1, dtype=np.int64)], [], []
    for block in iter_blocks(interactions.n_users, n_items, _BLOCK):
        start, end = block.start, block.stop
        held = np.diff(table.indptr[start : end + 1])
        own = np.zeros((end - start, n_items), dtype=np.bool_)
        items = table.indices[table.indptr[start] : table.indptr[end]]
        own[np.repeat(np.arange(end - start), held), items] = True
        keys = _draw_keys(Streams(streams.seeds[block]), n_items)
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
        item_ids=np.concatenate([np.zeros(0, dtype=np.int32), *ids]),
        is_positive=np.concatenate([np.zeros(0, dtype=np.bool_), *positive]),
    )


def draw_visit_orders(streams: Streams, sizes: Ints, epoch: int) -> NDArray[np.int32]:
    """Draws the order in which each of n devices visits its ``sizes[i]`` examples in ``epoch``.

    ``streams``: one random stream per device.
    ``sizes``: number of examples of each device i, shape (n,).
    ``epoch``: index of the epoch.

    The result has the shape (n, max(sizes)). Row i begins with a uniform permutation of 0 to
    sizes[i] - 1. The remaining positions are not used.
    """
    width = int(sizes.max(initial=0))
    keys = _draw_keys(streams.derive(2 * epoch + 1), width)
    padding = np.arange(width) >= sizes[:, None]
    keys[padding] |= ~_LOW
    keys.sort(axis=1)
    return (keys & _LOW).astype(np.int32)


def draw_linear_term(
    streams: Streams, local: LocalSettings, shapes: dict[str, tuple[int, ...]], name: str
) -> NDArray[np.float32]:
    """Draws the random linear term of each device's loss for one model array.

    Such a term is added in objective perturbation.

    ``streams``: random streams of the n devices.
    ``local``: training settings, with the scale of the Laplace noise by array.
    ``shapes``: shape of each array of the model, by name.
    ``name``: name of the array.

    Returns the coefficients of the term, shape (n, *shape).
    """
    from fedrec_auditor.targets.noise_kernel import add_laplace

    seeds = _linear_streams(streams, shapes, name).seeds
    zeros = np.zeros((len(streams), int(np.prod(shapes[name]))), dtype=np.float32)
    drawn = np.empty_like(zeros)
    add_laplace(zeros, seeds, 1.0, local.linear_term_scales[name], drawn)
    return drawn.reshape(len(streams), *shapes[name])


def draw_row_linear_term(
    streams: Streams, local: LocalSettings, shapes: dict[str, tuple[int, ...]], examples: Examples
) -> NDArray[np.float32]:
    """Draws the coefficients of item rows in each device's random linear term, shape (nnz, d).

    In objective perturbation, a device adds a random linear function of the parameters to its loss.
    One row of coefficients is drawn for each example: for the row of the example's item.

    ``streams``: random streams of the devices.
    ``local``: training settings, with the scale of the Laplace noise by array of the model.
    ``shapes``: shape of each array of the model, by name; "item" has rows of d entries.
    ``examples``: the nnz examples of all devices, each with its item.

    The result is empty, shape (0, d), if the loss has no linear term in item rows.
    """
    if (scale := local.linear_term_scales.get("item")) is None:
        return np.zeros((0, shapes["item"][1]), dtype=np.float32)
    from fedrec_auditor.targets.noise_kernel import add_laplace_rows

    seeds = _linear_streams(streams, shapes, "item").seeds
    zeros = np.zeros((len(examples.item_ids), shapes["item"][1]), dtype=np.float32)
    drawn = np.empty_like(zeros)
    ids = examples.item_ids.astype(np.int64)
    # The coefficient of entry k of an item's row is the draw with index item * d + k of the
    # device's stream.
    add_laplace_rows(zeros, examples.indptr, ids, seeds, 1.0, scale, drawn)
    return drawn


def _linear_streams(streams: Streams, shapes: dict[str, tuple[int, ...]], name: str) -> Streams:
    return streams.derive(2 * list(shapes).index(name) + 2)


def _draw_keys(streams: Streams, count: int) -> NDArray[np.uint64]:
    """Draws distinct random sort keys, shape (n, count); the low bits of each key are its
    column.
    """
    return (streams.draw_words(count) & ~_LOW) | np.arange(count, dtype=np.uint64)


class NeighbourUse(IntEnum):
    """Use of the rows of the user's items (graph neighbours) in the user's embedding.

    z_u is the user's own vector, z_v are the rows of the user's items, and W1, W2 and b are
    parameters of the model. The embedding is:

    IGNORED: z_u.
    ADDED: z_u + mean z_v.
    CONVOLVED: ReLU(W2 (z_u + W1 mean z_v) + b).
    """

    IGNORED = 0  # u = z_u
    ADDED = 1  # u = z_u + mean z_v
    CONVOLVED = 2  # u = ReLU(W2 (z_u + W1 mean z_v) + b)


@dataclass(frozen=True, slots=True)
class TrainingJob:
    """Data, parameters and random streams of the devices that are trained in one call.

    ``param_shapes``: shape of each component (named array) of the model.
    ``local``: settings of the local training.
    ``streams``: one random stream per device.
    ``examples``: training examples of the devices.
    ``tables``: data of the devices, and their parameters, which are trained in place.
    ``kernel_settings``: settings of the compiled code.
    ``moments``: moments of Adam, kept between calls of the compiled code; arrays of length 0 if one
        call runs all epochs.
    """

    param_shapes: dict[str, tuple[int, ...]]
    local: LocalSettings
    streams: Streams
    examples: Examples
    tables: kernel.DeviceTables
    kernel_settings: KernelSettings
    moments: kernel.AdamMoments

    def iter_device_blocks(self, bound: int) -> Iterator[NDArray[np.int64]]:
        """Yields blocks of devices (row indices) with similar numbers of examples, up to the size
        ``bound``.

        The size is the number of devices times the largest number of examples; only a block of one
        device may exceed ``bound``. Devices without examples are left out.
        """
        sizes = self.examples.n_examples
        order = np.argsort(sizes, kind="stable")[::-1]
        order = order[sizes[order] > 0]
        while len(order):
            count = max(1, bound // int(sizes[order[0]]))
            yield np.sort(order[:count])
            order = order[count:]


def split_params(
    theta: NDArray[np.float32], shapes: dict[str, tuple[int, ...]]
) -> dict[str, NDArray[np.float32]]:
    """Splits the parameter vectors of n devices into named arrays, shape (n, *shape) each.

    ``theta``: all parameters of each device except the item rows, shape (n, P).
    ``shapes``: shape of every component, in the order of the columns of ``theta``.

    The arrays are views of ``theta``.
    """
    out, start = {}, 0
    for name, shape in shapes.items():
        if name != "item":
            end = start + int(np.prod(shape))
            out[name] = theta[:, start:end].reshape(len(theta), *shape)
            start = end
    return out


# Key from which a device's random streams for the noise after an epoch are derived. All other keys
# are smaller.
_NOISE = 1 << 32
# Maximum number of entries in the visiting orders of a block of devices.
_ORDERED = 1 << 18


def train_devices(
    model: dict[str, NDArray[np.float32]],
    clients: Clients,
    local: LocalSettings,
    compute: Machine,
    *,
    neighbour_use: NeighbourUse,
    has_mlp: bool,
    has_squared_loss: bool,
) -> dict[str, Component]:
    """Trains the models of all devices, and returns the trained arrays by name.

    A device trains the item rows of its examples, and all other arrays of the model. Between
    epochs, ``local.epoch_noise`` is applied to these arrays and rows.

    model: the broadcast model
    clients: the devices
    local: settings of the local training
    compute: simulation settings, of which only the number of threads is used
    neighbour_use: use of the rows of the user's items in the computation of the user's embedding
    has_mlp: true if an MLP scores items, false if a dot product does
    has_squared_loss: true for the squared error as loss, false for the cross-entropy
    """
    # The noise of untrained item rows is not stored: reading a component of the result draws it,
    # with the same values each time. Memory: the result, and the arrays of one block of devices. A
    # random linear term in the loss adds up to the size of the result, and noise between epochs
    # adds twice this size.
    work = _make_job(model, clients, local, int(neighbour_use), has_mlp, has_squared_loss)
    if local.epoch_noise:
        for epoch in range(local.epochs):
            if epoch:
                _add_epoch_noise(work, epoch - 1)
            _run_epochs(work, range(epoch, epoch + 1), compute)
    else:
        _run_epochs(work, range(local.epochs), compute)
    out: dict[str, Component] = {
        name: Dense(values, Payload.MODEL, local.learning_rate)
        for name, values in split_params(work.tables.dense_params, work.param_shapes).items()
    }
    rows = SparseRows(
        indptr=work.examples.indptr,
        row_ids=work.examples.item_ids,
        values=work.tables.item_rows,
        n_rows=len(model["item"]),
        kind=Payload.MODEL,
        learning_rate=local.learning_rate,
        broadcast=model["item"],
    )
    out["item"] = rows
    if "item" in local.epoch_noise:
        out["item"] = components.OverlaidTables(_make_noisy_table(work, rows), rows)
    return {name: out[name] for name in model}


def _make_job(
    model: dict[str, NDArray[np.float32]],
    clients: Clients,
    local: LocalSettings,
    mean_row_mode: int,
    has_mlp: bool,
    has_squared_loss: bool,
) -> TrainingJob:
    """Draws the random examples and linear terms of the devices, and returns their data and initial
    parameters.
    """
    from fedrec_auditor.targets.federated import kernel
    from fedrec_auditor.targets.federated.minibatch import KernelSettings

    shapes = {name: array.shape for name, array in model.items()}
    objective = clients.linear_term_streams or clients.streams
    examples = draw_examples(clients.interactions, clients.streams, local.negatives)
    dense = [name for name in model if name != "item"]
    first = np.concatenate([model[name].ravel() for name in dense])
    tables = kernel.DeviceTables(
        is_positive=examples.is_positive,
        features=np.ascontiguousarray(clients.features, dtype=np.float32),
        dense_params=np.repeat(first[None], len(clients), axis=0),
        item_rows=model["item"][examples.item_ids],
        dense_linear_coefs=_join_linear_terms(objective, local, shapes, dense),
        row_linear_coefs=draw_row_linear_term(objective, local, shapes, examples),
    )
    if clients.user_embeddings is not None:
        split_params(tables.dense_params, shapes)["user.E"][:] = clients.user_embeddings
    copies = (2 if local.epoch_noise else 0,)
    return TrainingJob(
        param_shapes=shapes,
        local=local,
        streams=clients.streams,
        examples=examples,
        tables=tables,
        kernel_settings=KernelSettings(
            mean_row_mode,
            has_mlp,
            has_squared_loss,
            local.optimizer == "adam",
            np.float32(local.learning_rate),
            local.batch,
        ),
        moments=kernel.AdamMoments(
            np.zeros(copies + tables.dense_params.shape, dtype=np.float32),
            np.zeros(copies + tables.item_rows.shape, dtype=np.float32),
            epochs_done=0,
        ),
    )


def _join_linear_terms(
    streams: Streams, local: LocalSettings, shapes: dict[str, tuple[int, ...]], dense: list[str]
) -> NDArray[np.float32]:
    if not set(local.linear_term_scales) & set(dense):
        return np.zeros((0, 0), dtype=np.float32)
    parts = [
        draw_linear_term(streams, local, shapes, name).reshape(len(streams), -1)
        if name in local.linear_term_scales
        else np.zeros((len(streams), int(np.prod(shapes[name]))), dtype=np.float32)
        for name in dense
    ]
    return np.concatenate(parts, axis=1)


def _epoch_streams(work: TrainingJob, name: str, epoch: int) -> Streams:
    return work.streams.derive(_NOISE + epoch).derive(list(work.param_shapes).index(name))


def _add_epoch_noise(work: TrainingJob, epoch: int) -> None:
    """Applies the noise at the end of ``epoch`` to all parameters and to the trained item rows, in
    place.
    """
    for name, values in split_params(work.tables.dense_params, work.param_shapes).items():
        if name in work.local.epoch_noise:
            values[:] = work.local.epoch_noise[name](values, _epoch_streams(work, name, epoch))
    if "item" in work.local.epoch_noise:
        streams, examples = _epoch_streams(work, "item", epoch), work.examples
        rows = work.tables.item_rows
        rows[:] = work.local.epoch_noise["item"].add_noise_to_rows(
            rows, streams, examples.indptr, examples.item_ids
        )


def _make_noisy_table(work: TrainingJob, rows: SparseRows) -> Component:
    """Returns the broadcast item table with the noise of all epochs except the last, without any
    training.
    """
    none, indptr = np.zeros(0, dtype=np.int64), np.zeros_like(rows.indptr)
    table: Component = replace(rows, indptr=indptr, row_ids=none, values=rows.values[none])
    for epoch in range(work.local.epochs - 1):
        streams = _epoch_streams(work, "item", epoch)
        table = components.RandomizedMessages(table, work.local.epoch_noise["item"], streams)
    return table


def _run_epochs(work: TrainingJob, epochs: range, compute: Machine) -> None:
    """Trains all devices of ``work`` in place for these epochs."""
    from fedrec_auditor.targets.federated import kernel

    examples, moments = work.examples, work.moments._replace(epochs_done=epochs.start)

    # Trains a block of devices for all ``epochs``.
    def run(devices: NDArray[np.int64]) -> None:
        sizes, streams = examples.n_examples[devices], work.streams.take(devices)
        order = np.empty((len(epochs), len(devices), int(sizes.max())), dtype=np.int32)
        for place, epoch in enumerate(epochs):
            order[place] = draw_visit_orders(streams, sizes, epoch)
        block = kernel.DeviceBlock(devices, examples.indptr[devices], sizes, order)
        batch = min(work.local.batch, int(sizes.max()))  # rows of scratch arrays
        kernel.train_block(block, work.tables, work.kernel_settings._replace(batch=batch), moments)

    blocks = work.iter_device_blocks(_ORDERED // max(1, len(epochs)) // compute.threads)
    # The compiled code calls scipy's BLAS, which must be loaded before it is limited to one thread.
    importlib.import_module("scipy.linalg.cython_blas")
    with limit_to_one_thread():
        list(map_in_threads(run, blocks, compute.threads))
