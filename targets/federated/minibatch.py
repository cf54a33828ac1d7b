"""Forward and backward pass of one device's minibatch, compiled by numba for the module ``kernel``.

The layers of a device are views of one vector. The MLP's first weights are stored as two matrices:
one for the user's embedding, and one (transposed) for the item's embedding.
"""

# BLAS computes the matrix products with item rows in the MLP's first layer (in one thread, see
# ``local_training``). The layout avoids products A B^T, which sum along the rows of both factors,
# and for which BLAS has only 0.6 times the speed.

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.targets.compiled import REORDERED_MATH_FLAGS, jit_compile

F32 = NDArray[np.float32]
BoolArray = NDArray[np.bool_]
Int32Array = NDArray[np.int32]

_part = jit_compile(cache=False, fastmath=REORDERED_MATH_FLAGS)


class KernelSettings(NamedTuple):
    """Settings of a model and of its training, as the compiled code needs them.

    ``mean_row_mode``: how the user's embedding uses the mean item row: 0 not at all, 1 as a
        summand, 2 by a convolution (``local_training.NeighbourUse``).
    ``has_mlp``: whether an MLP scores items; otherwise the score is a dot product.
    ``has_squared_loss``: whether the loss is the squared error; otherwise it is the cross-entropy.
    ``is_adam``: whether the optimizer is Adam; otherwise it is gradient descent.
    ``learning_rate``: learning rate.
    ``batch``: examples per minibatch.
    """

    mean_row_mode: int
    has_mlp: bool
    has_squared_loss: bool
    is_adam: bool
    learning_rate: np.float32
    batch: int


class Layers(NamedTuple):
    """A device's model parameters without the item rows, or the gradients of these parameters.

    The user's embedding is u = ReLU(W2 (E x_u + W1 mean) + b). x_u are the user's features, and
    mean is the mean row of the user's items. d is the dimension of embeddings.

    ``all_params``: all these parameters as one vector; the other fields are views of it.
    ``feature_weights``: E, shape (d, number of features).
    ``mean_item_row_weights``: W1, shape (d, d).
    ``embedding_layer_weights``: W2, shape (d, d).
    ``bias``: b, shape (d,).
    ``mlp_user_weights``, ``mlp_item_weights``: the MLP's first weights for the user's embedding and
        (transposed) for the item's, shape (d, d).
    ``mlp_other_params``: the MLP's first bias, its last weight and its last bias, shape (2d + 1,).

    A layer that the model does not have is an arbitrary view that is never read.
    """

    all_params: F32
    feature_weights: F32
    mean_item_row_weights: F32
    embedding_layer_weights: F32
    bias: F32
    mlp_user_weights: F32
    mlp_item_weights: F32
    mlp_other_params: F32


class ScratchArrays(NamedTuple):
    """Temporary arrays for one minibatch, with the sizes of a full batch.

    d is the dimension of embeddings. ``Layers`` explains E, W1 and the user's features x_u.

    ``item_rows``: rows of the minibatch's items, shape (batch, d).
    ``item_gradients``: gradients of ``item_rows``, shape (batch, d).
    ``hidden_layer``: hidden layer of the MLP, shape (d * batch,).
    ``logits``: scores of the items, shape (batch,).
    ``mean_item_row``: mean row of the user's items, shape (d,).
    ``feature_embedding``: the user's own vector z_u = E x_u, shape (d,).
    ``embedding_hidden_layer``: z_u + W1 mean, an intermediate result of the user's embedding, shape
        (d,).
    ``user_embedding``: the user's embedding, shape (d,).
    ``feature_embedding_gradient``: gradient of ``feature_embedding``, shape (d,).
    ``mean_item_row_gradient``: gradient of ``mean_item_row``, shape (d,).
    ``embedding_gradient``: gradient of ``user_embedding``, shape (d,).
    ``first_bias_gradient``: gradient of the MLP's first bias, shape (d,).
    """

    item_rows: F32
    item_gradients: F32
    hidden_layer: F32
    logits: F32
    mean_item_row: F32
    feature_embedding: F32
    embedding_hidden_layer: F32
    user_embedding: F32
    feature_embedding_gradient: F32
    mean_item_row_gradient: F32
    embedding_gradient: F32
    first_bias_gradient: F32


@_part
def make_scratch_arrays(batch: int, d: int) -> ScratchArrays:
    """Creates temporary arrays of zeros for minibatches of ``batch`` examples.

    ``d`` is the dimension of embeddings.
    """
    z, dz = np.zeros((batch, d), np.float32), np.zeros((batch, d), np.float32)
    layer, logits = np.zeros(d * batch, np.float32), np.zeros(batch, np.float32)
    v = np.zeros((8, d), np.float32)
    return ScratchArrays(z, dz, layer, logits, v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7])


@_part
def make_layers(flat: F32, d: int, width: int, settings: KernelSettings) -> Layers:
    """Creates the layers of one device's model, with ``width`` user features, as views of ``flat``.

    ``flat``: vector as long as a row of ``kernel.DeviceTables.dense_params``.
    ``d``: dimension of embeddings.
    ``width``: number of user features.
    ``settings``: settings, which determine the model's layers.
    """
    end = d * width
    e = flat[:end].reshape(d, width)
    w_1, w_2, bias, from_user, from_item = e, e, flat, e, e
    if settings.mean_row_mode == 2:
        w_1 = flat[end : end + d * d].reshape(d, d)
        w_2 = flat[end + d * d : end + 2 * d * d].reshape(d, d)
        end += 2 * d * d + d
        bias = flat[end - d : end]
    if settings.has_mlp:
        from_user = flat[end : end + d * d].reshape(d, d)
        from_item = flat[end + d * d : end + 2 * d * d].reshape(d, d)
        end += 2 * d * d
    return Layers(flat, e, w_1, w_2, bias, from_user, from_item, flat[end:])


@_part
def copy_into(out: F32, values: F32) -> None:
    """Copies ``values`` into ``out``.

    All copies in this file are loops, because compiling an assignment to a slice takes seconds.
    """
    for k in range(len(out)):
        out[k] = values[k]


@_part
def load_params(layers: Layers, theta: F32, has_mlp: bool) -> None:
    """Copies one device's parameter vector ``theta`` into ``layers``.

    ``layers``: the layers, which are overwritten.
    ``theta``: a row of ``kernel.DeviceTables.dense_params``.
    ``has_mlp``: whether the model has an MLP. Its first weight matrix is then also split into a
        user half and an item half.
    """
    copy_into(layers.all_params, theta)
    if has_mlp:
        d, top = len(layers.mlp_user_weights), len(theta) - len(layers.mlp_other_params)
        weight = theta[top - 2 * d * d : top].reshape(d, 2 * d)
        for h in range(d):
            for k in range(d):
                layers.mlp_user_weights[h, k] = weight[h, k]
                layers.mlp_item_weights[k, h] = weight[h, d + k]


@_part
def store_params(theta: F32, layers: Layers, has_mlp: bool) -> None:
    """Copies ``layers`` back into one device's parameter vector ``theta``.

    ``theta``: a row of ``kernel.DeviceTables.dense_params``, which is overwritten.
    ``layers``: the layers.
    ``has_mlp``: whether the model has an MLP. The user half and the item half of its first weight
        matrix are then joined.
    """
    copy_into(theta, layers.all_params)
    if has_mlp:
        d, top = len(layers.mlp_user_weights), len(theta) - len(layers.mlp_other_params)
        weight = theta[top - 2 * d * d : top].reshape(d, 2 * d)
        for h in range(d):
            for k in range(d):
                weight[h, k] = layers.mlp_user_weights[h, k]
                weight[h, d + k] = layers.mlp_item_weights[k, h]


@_part
def multiply_vector(out: F32, matrix: F32, vector: F32) -> None:
    """Writes the product of ``matrix`` and ``vector`` into ``out``."""
    n = matrix.shape[0]
    for i in range(0, n - 3, 4):
        t0, t1, t2, t3 = np.float32(0), np.float32(0), np.float32(0), np.float32(0)
        for j in range(matrix.shape[1]):
            t0 += matrix[i, j] * vector[j]
            t1 += matrix[i + 1, j] * vector[j]
            t2 += matrix[i + 2, j] * vector[j]
            t3 += matrix[i + 3, j] * vector[j]
        out[i], out[i + 1], out[i + 2], out[i + 3] = t0, t1, t2, t3
    for i in range(n - n % 4, n):
        total = np.float32(0)
        for j in range(matrix.shape[1]):
            total += matrix[i, j] * vector[j]
        out[i] = total


@_part
def embed_user(
    user: F32,
    inner: F32,
    own: F32,
    mean: F32,
    matrix_1: F32,
    matrix_2: F32,
    bias: F32,
    mean_row_mode: int,
) -> None:
    """Writes a user's embedding into ``user``, computed by the formula ``mean_row_mode``.

    ``user``: receives the embedding, shape (d,).
    ``inner``: receives ``own`` + W1 ``mean`` in formula 2, and is unchanged otherwise.
    ``own``: the user's own vector, shape (d,).
    ``mean``: mean row of the user's items, shape (d,).
    ``matrix_1``, ``matrix_2``, ``bias``: the parameters W1, W2 and b.
    ``mean_row_mode``: number of the formula (as in ``KernelSettings``): 0 for ``own``, 1 for
        ``own`` + ``mean``, 2 for ReLU(W2 (``own`` + W1 ``mean``) + b).
    """
    if mean_row_mode == 0:
        for k in range(len(user)):
            user[k] = own[k]
    elif mean_row_mode == 1:
        for k in range(len(user)):
            user[k] = own[k] + mean[k]
    else:
        multiply_vector(inner, matrix_1, mean)
        for k in range(len(user)):
            inner[k] += own[k]
        multiply_vector(user, matrix_2, inner)
        for k in range(len(user)):
            user[k] = max(user[k] + bias[k], np.float32(0))


@_part
def score_items(
    logit: F32,
    hidden: F32,
    z: F32,
    user: F32,
    from_user: F32,
    from_item: F32,
    other_params: F32,
    scratch: F32,
) -> None:
    """Computes the MLP's scores of b items, and writes them into ``logit``.

    ``logit``: receives the scores, shape (b,).
    ``hidden``: receives the hidden layer of the MLP, shape (d, b).
    ``z``: item rows, shape (b, d).
    ``user``: the user's embedding, shape (d,).
    ``from_user``, ``from_item``: the halves of the MLP's first weights, applied to the user's
        embedding and (transposed) to the items.
    ``other_params``: the first layer's bias, and the last layer's weight and bias, in one vector.
    ``scratch``: temporary vector, shape (d,).
    """
    d, b = hidden.shape
    np.dot(from_item.T, z.T, hidden)
    multiply_vector(scratch, from_user, user)
    logit[:] = other_params[2 * d]
    for h in range(0, d - 1, 2):  # two rows per iteration
        offset_0, offset_1 = scratch[h] + other_params[h], scratch[h + 1] + other_params[h + 1]
        weight_0, weight_1 = other_params[d + h], other_params[d + h + 1]
        for e in range(b):
            active_0 = max(hidden[h, e] + offset_0, np.float32(0))
            active_1 = max(hidden[h + 1, e] + offset_1, np.float32(0))
            logit[e] += weight_0 * active_0 + weight_1 * active_1
            hidden[h, e] = active_0
            hidden[h + 1, e] = active_1
    for h in range(d - d % 2, d):
        for e in range(b):
            hidden[h, e] = max(hidden[h, e] + scratch[h] + other_params[h], np.float32(0))
            logit[e] += other_params[d + h] * hidden[h, e]


@_part
def compute_loss_slopes(logit: F32, positive: BoolArray, visit: Int32Array, squared: bool) -> None:
    """Replaces the scores ``logit`` of a minibatch by the derivatives of the loss at these scores.

    ``logit``: the scores, which are overwritten by the derivatives.
    ``positive``: label of each of the device's examples: whether it is one of the user's items.
    ``visit``: indices of the minibatch's examples among all examples.
    ``squared``: whether the loss is the squared error; otherwise it is the cross-entropy.
    """
    for e in range(len(visit)):
        label = np.float32(1) if positive[visit[e]] else np.float32(0)
        if squared:
            logit[e] = np.float32(2) * (logit[e] - label)
        else:
            logit[e] = np.float32(1) / (np.float32(1) + np.exp(-logit[e])) - label


@_part
def _backpropagate(gradient: F32, back: F32, matrix: F32, out: F32, vector: F32) -> None:
    """Computes gradient = out (x) vector, and back = matrix^T out."""
    back[:] = 0
    for i in range(len(out)):
        for j in range(len(vector)):
            gradient[i, j] = out[i] * vector[j]
            back[j] += out[i] * matrix[i, j]


@_part
def compute_mlp_gradients(
    slope: F32,
    hidden: F32,
    z: F32,
    dz: F32,
    user: F32,
    d_user: F32,
    d_first: F32,
    p: Layers,
    g: Layers,
) -> None:
    """Computes the gradients of the MLP's parameters, of the item rows and of the user's embedding.

    ``slope``: derivative of the loss at each of the b scores.
    ``hidden``: the hidden layer, shape (d, b), which is overwritten.
    ``z``, ``user``: item rows, shape (b, d), and the user's embedding.
    ``dz``, ``d_user``, ``d_first``: receive the gradients of ``z``, of ``user`` and of the first
        bias.
    ``p``, ``g``: the parameters, and the arrays that receive their gradients.
    """
    d = len(hidden)
    total = np.float32(0)
    for e in range(len(slope)):
        total += slope[e]
    g.mlp_other_params[2 * d] = total
    for h in range(d):
        weight, to_last, to_first = p.mlp_other_params[d + h], np.float32(0), np.float32(0)
        for e in range(len(slope)):
            to_last += slope[e] * hidden[h, e]
            back = slope[e] * weight if hidden[h, e] > 0 else np.float32(0)
            hidden[h, e] = back
            to_first += back
        d_first[h] = to_first
        g.mlp_other_params[d + h] = to_last
        g.mlp_other_params[h] = to_first
    np.dot(hidden.T, p.mlp_item_weights.T, dz)
    np.dot(z.T, hidden.T, g.mlp_item_weights)
    _backpropagate(g.mlp_user_weights, d_user, p.mlp_user_weights, d_first, user)


@_part
def compute_product_gradients(d_user: F32, dz: F32, slope: F32, z: F32, user: F32) -> None:
    """Computes the gradients of item rows and user embedding for scores that are dot products.

    ``slope``: derivative of the loss at each of the b scores.
    ``z``, ``user``: item rows, shape (b, d), and the user's embedding, shape (d,).
    ``dz``, ``d_user``: receive the gradients of ``z`` and of ``user``.
    """
    d_user[:] = 0
    for e in range(len(slope)):
        for k in range(len(user)):
            dz[e, k] = slope[e] * user[k]
            d_user[k] += slope[e] * z[e, k]


@_part
def backprop_embedding(
    d_z_u: F32, d_mean: F32, d_user: F32, user: F32, inner: F32, mean: F32, p: Layers, g: Layers
) -> None:
    """Computes the gradients of the parameters and inputs of the user's embedding.

    The embedding is ReLU(W2 (z_u + W1 ``mean``) + b), for the user's own vector z_u, the mean item
    row ``mean``, and the parameters W1, W2 and b.

    ``d_user``: gradient of the loss with respect to the embedding ``user``; is overwritten.
    ``d_z_u``, ``d_mean``: receive the gradients of the inputs z_u and ``mean``.
    ``inner``: the vector z_u + W1 ``mean``.
    ``p``, ``g``: the parameters, and the arrays that receive their gradients.
    """
    for k in range(len(user)):
        d_user[k] = d_user[k] if user[k] > 0 else np.float32(0)
        g.bias[k] = d_user[k]
    _backpropagate(g.embedding_layer_weights, d_z_u, p.embedding_layer_weights, d_user, inner)
    _backpropagate(g.mean_item_row_weights, d_mean, p.mean_item_row_weights, d_z_u, mean)
