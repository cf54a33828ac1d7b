"""Local training of devices one after another, compiled by numba, with each device's data in cache.

Every minibatch ends with one step of gradient descent or of Adam on all parameters of the device,
including item rows. Adam's moments start at zero in every round and persist from epoch to epoch. A
device's result is equal to the last bit in any batch of devices and with any number of threads.
"""

# As in torch's dense Adam, a row keeps moving after the minibatch that contains it. A device keeps
# nothing between rounds. Moments persist even if noise is added between two epochs.

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.targets.compiled import REORDERED_MATH_FLAGS, jit_compile
from fedrec_auditor.targets.federated.minibatch import (
    F32,
    BoolArray,
    Int32Array,
    KernelSettings,
    Layers,
    ScratchArrays,
    backprop_embedding,
    compute_loss_slopes,
    compute_mlp_gradients,
    compute_product_gradients,
    copy_into,
    embed_user,
    load_params,
    make_layers,
    make_scratch_arrays,
    multiply_vector,
    score_items,
    store_params,
)

Int64Array = NDArray[np.int64]

# Adam's usual constants (Kingma and Ba 2015).
BETA_1, BETA_2, ADAM_EPS = 0.9, 0.999, 1e-8

_part = jit_compile(cache=False, fastmath=REORDERED_MATH_FLAGS)
_inlined = jit_compile(cache=False, fastmath=REORDERED_MATH_FLAGS, inline="always")
_vectorized = jit_compile(cache=False, fastmath=REORDERED_MATH_FLAGS, error_model="numpy")


class DeviceBlock(NamedTuple):
    """A block of m devices that one call trains, and the order in which each visits its examples.

    ``devices``: row index of each device in ``DeviceTables.dense_params``, shape (m,).
    ``first_row_indices``: index of each device's first row in ``DeviceTables.item_rows``, shape
        (m,).
    ``row_counts``: number of each device's rows, one per example, shape (m,).
    ``visit_order``: ``visit_order[epoch, i, step]`` is the index of the example that the i-th
        device of the block visits, counted among its own examples. The shape is (epochs, m, largest
        row count).
    """

    devices: Int64Array
    first_row_indices: Int64Array
    row_counts: Int64Array
    visit_order: Int32Array


class DeviceTables(NamedTuple):
    """Data and parameters of all n devices, of which training changes some in place.

    Training changes ``dense_params`` and ``item_rows``. An example is an item with its label; nnz
    is the number of examples of all devices. A user has d1 features, and an embedding has d
    entries.

    ``is_positive``: whether an example is one of the device's own items, shape (nnz,).
    ``features``: features of each device's user, shape (n, d1).
    ``dense_params``: all P parameters of each device except item rows, shape (n, P). The order is
        E, W1, W2, b of the user's embedding (``minibatch.Layers``), then the MLP's weights and
        biases; parameters that the model does not have are left out.
    ``item_rows``: item embeddings of the examples, shape (nnz, d).
    ``dense_linear_coefs``: coefficient, for each entry of ``dense_params``, of the random linear
        term in the loss (``LocalSettings.linear_term_scales``), shape (n, P); empty without such a
        term.
    ``row_linear_coefs``: coefficient of the linear term for each entry of ``item_rows``, shape
        (nnz, d); empty without such a term.
    """

    is_positive: BoolArray
    features: F32
    dense_params: F32
    item_rows: F32
    dense_linear_coefs: F32
    row_linear_coefs: F32


class AdamMoments(NamedTuple):
    """First and second moments of Adam for the parameters of all n devices.

    ``dense_moments``: moments of ``DeviceTables.dense_params``, shape (2, n, P), for P parameters.
    ``row_moments``: moments of ``DeviceTables.item_rows``, shape (2, nnz, d), for nnz rows of d
        entries.
    ``epochs_done``: number of finished epochs.

    The first dimension is 0 instead of 2 if no moments are kept between calls.
    """

    dense_moments: F32
    row_moments: F32
    epochs_done: int


class DeviceData(NamedTuple):
    """Data of one device with k examples (items with labels), and its trained item rows.

    ``item_rows``: item embeddings of the examples, shape (k, d), trained in place.
    ``is_positive``: whether an example is one of the device's own items, shape (k,).
    ``features``: features of the device's user, shape (d1,).
    ``row_linear_coefs``: coefficient of the loss's linear term for each entry of
        ``item_rows``, shape (k, d); empty without such a term.
    ``visit_order``: index of the example visited at each step, per epoch, shape (epochs, k or
        more).
    """

    item_rows: F32
    is_positive: BoolArray
    features: F32
    row_linear_coefs: F32
    visit_order: Int32Array


@_vectorized
def _step_adam(
    p: F32, g: F32, m: F32, v: F32, rate: np.float32, scale: np.float32, tiny: np.float32
) -> None:
    """Takes one step of Adam: updates the parameters ``p`` and their moments ``m`` and ``v`` by the
    gradient ``g``.

    ``rate`` and ``scale`` include the bias corrections of the moments.
    """
    keep_1, keep_2 = np.float32(BETA_1), np.float32(BETA_2)
    new_1, new_2 = np.float32(1 - BETA_1), np.float32(1 - BETA_2)
    for k in range(len(p)):
        m[k] = keep_1 * m[k] + new_1 * g[k]
        v[k] = keep_2 * v[k] + new_2 * g[k] * g[k]
        p[k] -= rate * m[k] / (scale * np.sqrt(v[k]) + tiny)


@_vectorized
def _step_sgd(p: F32, g: F32, rate: np.float32) -> None:
    """Takes one step of gradient descent: updates the parameters ``p`` by their gradients ``g``."""
    for k in range(len(p)):
        p[k] -= rate * g[k]


@_part
def _gather_rows(
    z: F32, mean: F32, own: F32, positive: BoolArray, visit: Int32Array, part: np.float32
) -> None:
    """Copies the item rows of a minibatch into ``z``, and computes the mean of the device's own
    item rows.

    ``part`` is 1 / (number of own items), or 0 to leave ``mean`` unchanged.
    """
    for e in range(len(visit)):
        for k in range(len(mean)):
            z[e, k] = own[visit[e], k]
    if part > 0:
        mean[:] = 0
        for i in range(len(own)):
            if positive[i]:
                for k in range(len(mean)):
                    mean[k] += part * own[i, k]


@_part
def _sum_row_gradients(
    d_rows: F32,
    dz: F32,
    d_mean: F32,
    drawn: F32,
    positive: BoolArray,
    visit: Int32Array,
    part: np.float32,
    share: np.float32,
) -> None:
    """Computes the gradients of all item rows of the device into ``d_rows``.

    A gradient is the sum of up to three gradients: of the row as an example (``dz``), of the mean
    of the device's own rows (``d_mean``), and of the linear term of the loss (``drawn``).
    """
    d = len(d_mean)
    for i in range(len(d_rows)):
        if positive[i] and part > 0:
            for k in range(d):
                d_rows[i, k] = part * d_mean[k]
        else:
            for k in range(d):
                d_rows[i, k] = 0
    for e in range(len(visit)):
        for k in range(d):
            d_rows[visit[e], k] += dz[e, k]
    if len(drawn):
        for i in range(len(d_rows)):
            for k in range(d):
                d_rows[i, k] += share * drawn[i, k]


@_inlined
def _train(
    device: DeviceData,
    term: Layers,
    has_term: bool,
    s: ScratchArrays,
    p: Layers,
    g: Layers,
    settings: KernelSettings,
    moments: F32,
    row_state: F32,
    done: int,
) -> None:
    """Trains one device: changes its parameters and item rows in place.

    ``device``: data and item rows of the device.
    ``term``: coefficients of the linear term of the loss, if ``has_term``.
    ``s``: temporary arrays.
    ``p``, ``g``: the parameters, and the arrays that receive their gradients.
    ``moments``: Adam's moments of the parameters ``p``, shape (2, P).
    ``row_state``: gradients of the k item rows of d entries, and their two moments, shape (3, k d).
    ``done``: number of epochs before this call.
    """
    own, positive, features, drawn, order = device
    z, dz, layer, logits, mean, z_u, inner, user, d_z_u, d_mean, d_user, d_first = s
    _, e, w_1, w_2, bias, from_user, from_item, tail = p
    size, d = own.shape
    d_rows, held = row_state[0].reshape(size, d), 0
    for i in range(size):
        held += positive[i]
    part = np.float32(1) / np.float32(held) if settings.mean_row_mode != 0 else np.float32(0)
    steps = done * ((size + settings.batch - 1) // settings.batch)
    decay_1, decay_2 = BETA_1**steps, BETA_2**steps
    for epoch in range(order.shape[0]):
        for start in range(0, size, settings.batch):
            visit = order[epoch, start : min(start + settings.batch, size)]
            b = len(visit)
            share = np.float32(b) / np.float32(size)
            _gather_rows(z, mean, own, positive, visit, part)
            multiply_vector(z_u, e, features)
            logit, hidden = logits[:b], layer[: d * b].reshape(d, b)
            embed_user(user, inner, z_u, mean, w_1, w_2, bias, settings.mean_row_mode)
            if settings.has_mlp:
                score_items(logit, hidden, z[:b], user, from_user, from_item, tail, d_first)
                compute_loss_slopes(logit, positive, visit, settings.has_squared_loss)
                compute_mlp_gradients(logit, hidden, z[:b], dz[:b], user, d_user, d_first, p, g)
            else:
                multiply_vector(logit, z[:b], user)
                compute_loss_slopes(logit, positive, visit, settings.has_squared_loss)
                compute_product_gradients(d_user, dz, logit, z, user)
            if settings.mean_row_mode == 2:
                backprop_embedding(d_z_u, d_mean, d_user, user, inner, mean, p, g)
            else:
                copy_into(d_z_u, d_user)
                copy_into(d_mean, d_user)
            for h in range(d):
                for k in range(len(features)):
                    g.feature_weights[h, k] = d_z_u[h] * features[k]
            _sum_row_gradients(d_rows, dz, d_mean, drawn, positive, visit, part, share)
            if has_term:
                for k in range(len(g.all_params)):
                    g.all_params[k] += share * term.all_params[k]
            if not settings.is_adam:
                _step_sgd(p.all_params, g.all_params, settings.learning_rate)
                _step_sgd(own.ravel(), row_state[0], settings.learning_rate)
                continue
            decay_1 *= BETA_1
            decay_2 *= BETA_2
            step = np.float32(settings.learning_rate / (1 - decay_1))
            scale, tiny = np.float32(1 / np.sqrt(1 - decay_2)), np.float32(ADAM_EPS)
            _step_adam(p.all_params, g.all_params, moments[0], moments[1], step, scale, tiny)
            _step_adam(own.ravel(), row_state[0], row_state[1], row_state[2], step, scale, tiny)


@jit_compile(fastmath=REORDERED_MATH_FLAGS)
def train_block(
    block: DeviceBlock, tables: DeviceTables, settings: KernelSettings, adam: AdamMoments
) -> None:
    """Trains the devices of a block: changes their parameters in place.

    ``block``: the devices, and the order in which each visits its examples.
    ``tables``: data and parameters of all devices; those of the block change in place.
    ``settings``: settings of the model and of its training.
    ``adam``: moments of Adam, which also change in place if they are kept between calls.
    """
    width, d = tables.features.shape[1], tables.item_rows.shape[1]
    length = tables.dense_params.shape[1]
    s, flat = make_scratch_arrays(settings.batch, d), np.zeros((3, length), np.float32)
    p, g = make_layers(flat[0], d, width, settings), make_layers(flat[1], d, width, settings)
    term, drawn = make_layers(flat[2], d, width, settings), tables.row_linear_coefs
    has_term = len(tables.dense_linear_coefs) > 0
    for place in range(len(block.devices)):
        at, first = block.devices[place], block.first_row_indices[place]
        end = first + block.row_counts[place]
        own, positive = tables.item_rows[first:end], tables.is_positive[first:end]
        load_params(p, tables.dense_params[at], settings.has_mlp)
        if has_term:
            load_params(term, tables.dense_linear_coefs[at], settings.has_mlp)
        if len(tables.row_linear_coefs):
            drawn = tables.row_linear_coefs[first:end]
        device = DeviceData(own, positive, tables.features[at], drawn, block.visit_order[:, place])
        moments = np.zeros((2, length), np.float32)
        row_state = np.zeros((3, len(own) * d), np.float32)
        for which in range(len(adam.dense_moments)):
            copy_into(moments[which], adam.dense_moments[which, at])
            copy_into(row_state[1 + which], adam.row_moments[which, first:end].ravel())
        _train(device, term, has_term, s, p, g, settings, moments, row_state, adam.epochs_done)
        for which in range(len(adam.dense_moments)):
            copy_into(adam.dense_moments[which, at], moments[which])
            copy_into(adam.row_moments[which, first:end].ravel(), row_state[1 + which])
        store_params(tables.dense_params[at], p, settings.has_mlp)
