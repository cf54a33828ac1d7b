"""Local training of one device after the other, all of its epochs in cache, compiled by numba.

The same steps as the batched training, written as loops: forward, backward and descent of a
minibatch are fused, the three matrix products are blocked by hand so that they vectorise, and
nothing is allocated inside. What a step adds to all of a device's own rows is one vector ``shift``,
the linear term of touched rows a coefficient ``spent`` of its draws. A device's result is the same
to the bit in any batch of devices, in any number of threads.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numba
import numpy as np
from numpy.typing import NDArray

F32 = NDArray[np.float32]
_Function = TypeVar("_Function")


def _compiled(function: _Function) -> _Function:
    """Without the interpreter's lock; sums may be reordered, infinities and nan stay."""
    options: dict[str, Any] = {"nogil": True, "fastmath": {"reassoc", "contract", "nsz", "arcp"}}
    made: Any = numba.njit
    try:
        compiled: _Function = made(cache=True, **options)(function)
    except RuntimeError:  # nowhere to keep the cache
        compiled = made(**options)(function)
    return compiled


@_compiled
def _add_product(c: F32, a: F32, b: F32, scale: np.float32) -> None:
    """c (m, n) += scale a (m, k) b (k, n); four rows times four terms stay in registers."""
    m, terms, n = a.shape[0], a.shape[1], b.shape[1]
    for i in range(0, m - m % 4, 4):
        for p in range(0, terms - terms % 4, 4):
            a00, a01 = scale * a[i, p], scale * a[i, p + 1]
            a02, a03 = scale * a[i, p + 2], scale * a[i, p + 3]
            a10, a11 = scale * a[i + 1, p], scale * a[i + 1, p + 1]
            a12, a13 = scale * a[i + 1, p + 2], scale * a[i + 1, p + 3]
            a20, a21 = scale * a[i + 2, p], scale * a[i + 2, p + 1]
            a22, a23 = scale * a[i + 2, p + 2], scale * a[i + 2, p + 3]
            a30, a31 = scale * a[i + 3, p], scale * a[i + 3, p + 1]
            a32, a33 = scale * a[i + 3, p + 2], scale * a[i + 3, p + 3]
            for j in range(n):
                b0, b1, b2, b3 = b[p, j], b[p + 1, j], b[p + 2, j], b[p + 3, j]
                c[i, j] += a00 * b0 + a01 * b1 + a02 * b2 + a03 * b3
                c[i + 1, j] += a10 * b0 + a11 * b1 + a12 * b2 + a13 * b3
                c[i + 2, j] += a20 * b0 + a21 * b1 + a22 * b2 + a23 * b3
                c[i + 3, j] += a30 * b0 + a31 * b1 + a32 * b2 + a33 * b3
        for p in range(terms - terms % 4, terms):
            for r in range(i, i + 4):
                left = scale * a[r, p]
                for j in range(n):
                    c[r, j] += left * b[p, j]
    for i in range(m - m % 4, m):
        for p in range(terms):
            left = scale * a[i, p]
            for j in range(n):
                c[i, j] += left * b[p, j]


@_compiled
def _apply(out: F32, matrix: F32, vector: F32) -> None:
    """out = matrix vector."""
    for i in range(matrix.shape[0]):
        total = np.float32(0)
        for j in range(matrix.shape[1]):
            total += matrix[i, j] * vector[j]
        out[i] = total


@_compiled
def _descend(matrix: F32, out: F32, vector: F32, back: F32, rate: np.float32) -> None:
    """Back = matrix^T out with the old matrix; matrix -= rate out (x) vector."""
    back[:] = 0
    for i in range(matrix.shape[0]):
        slope = out[i]
        if slope != 0:
            step = rate * slope
            for j in range(matrix.shape[1]):
                back[j] += slope * matrix[i, j]
                matrix[i, j] -= step * vector[j]


@_compiled
def train_fused(
    devices: NDArray[np.int64],
    starts: NDArray[np.int64],
    sizes: NDArray[np.int64],
    order: NDArray[np.int32],
    positive: NDArray[np.bool_],
    x: F32,
    theta: F32,
    rows: F32,
    tilt: F32,
    tilt_rows: F32,
    neighbours: int,
    deep: bool,
    rate: np.float32,
    batch: int,
) -> None:
    """Trains ``devices`` in place: their ``theta`` (n, P) and ``rows`` (nnz, d).

    ``theta`` holds E, W1, W2, b, then the MLP's weights and biases, as the learner has them. Device
    ``devices[i]`` has rows ``starts[i]`` to ``starts[i] + sizes[i]`` and visits them in
    ``order[epoch, i]``. ``tilt`` has theta's shape, ``tilt_rows`` that of rows; either may have no
    rows if there is no such term.
    """
    width, d = x.shape[1], rows.shape[1]
    f32 = np.float32
    z, dz = np.zeros((batch, d), f32), np.zeros((batch, d), f32)
    across_all, hidden_all = np.zeros(d * batch, f32), np.zeros(d * batch, f32)
    from_user, from_item = np.zeros((d, d), f32), np.zeros((d, d), f32)
    logit = np.zeros(batch, f32)
    mean, shift, mean_tilt = np.zeros(d, f32), np.zeros(d, f32), np.zeros(d, f32)
    inner, user, bias = np.zeros(d, f32), np.zeros(d, f32), np.zeros(d, f32)
    d_first, d_user, d_inner, d_mean = (
        np.zeros(d, f32),
        np.zeros(d, f32),
        np.zeros(d, f32),
        np.zeros(d, f32),
    )
    nothing = np.zeros(width, f32)
    for place in range(len(devices)):
        device, first, size = devices[place], starts[place], sizes[place]
        own = rows[first : first + size]
        features = x[device]
        flat = theta[device]
        end = d * width
        matrix_e = flat[:end].reshape(d, width)
        matrix_1, matrix_2, bias_2 = from_user, from_user, bias  # not used unless set below
        if neighbours == 2:
            matrix_1 = flat[end : end + d * d].reshape(d, d)
            matrix_2 = flat[end + d * d : end + 2 * d * d].reshape(d, d)
            bias_2 = flat[end + 2 * d * d : end + 2 * d * d + d]
            end += 2 * d * d + d
        mlp = end
        bias_1, last = bias, bias
        if deep:
            both = flat[mlp : mlp + 2 * d * d].reshape(d, 2 * d)
            from_user[:, :] = both[:, :d]
            from_item[:, :] = both[:, d:]
            bias_1 = flat[mlp + 2 * d * d : mlp + 2 * d * d + d]
            last = flat[mlp + 2 * d * d + d : mlp + 2 * d * d + 2 * d]
        held = 0
        mean[:], shift[:], mean_tilt[:] = 0, 0, 0
        for i in range(size):
            if positive[first + i]:
                held += 1
                for k in range(d):
                    mean[k] += own[i, k]
                if len(tilt_rows):
                    for k in range(d):
                        mean_tilt[k] += tilt_rows[first + i, k]
        part = f32(1) / f32(held)
        for k in range(d):
            mean[k] *= part
            mean_tilt[k] *= part
        spent = f32(0)

        for epoch in range(order.shape[0]):
            for start in range(0, size, batch):
                visit = order[epoch, place, start : min(start + batch, size)]
                b = len(visit)
                across = across_all[: d * b].reshape(d, b)
                hidden = hidden_all[: d * b].reshape(d, b)
                for e in range(b):
                    row = own[visit[e]]
                    for k in range(d):
                        z[e, k] = row[k]
                    if len(tilt_rows):
                        drawn = tilt_rows[first + visit[e]]
                        for k in range(d):
                            z[e, k] -= rate * spent * drawn[k]
                    if positive[first + visit[e]]:
                        for k in range(d):
                            z[e, k] += shift[k]
                # the user's embedding
                _apply(user, matrix_e, features)
                if neighbours == 1:
                    for k in range(d):
                        user[k] += mean[k]
                elif neighbours == 2:
                    _apply(inner, matrix_1, mean)
                    for k in range(d):
                        inner[k] += user[k]
                    _apply(user, matrix_2, inner)
                    for k in range(d):
                        user[k] = max(user[k] + bias_2[k], f32(0))
                # scores, and their slopes
                if deep:
                    for e in range(b):
                        for k in range(d):
                            across[k, e] = z[e, k]
                    _apply(d_first, from_user, user)
                    for h in range(d):
                        hidden[h] = d_first[h] + bias_1[h]
                    _add_product(hidden, from_item, across, f32(1))
                    logit[:b] = flat[-1]
                    for h in range(d):
                        for e in range(b):
                            hidden[h, e] = max(hidden[h, e], f32(0))
                            logit[e] += last[h] * hidden[h, e]
                else:
                    _apply(logit[:b], z[:b], user)
                for e in range(b):
                    label = f32(1) if positive[first + visit[e]] else f32(0)
                    logit[e] = f32(1) / (f32(1) + np.exp(-logit[e])) - label
                # back through the scores
                dz[:b] = 0
                if deep:
                    total = f32(0)
                    for e in range(b):
                        total += logit[e]
                    flat[-1] -= rate * total
                    for h in range(d):
                        weight = last[h]
                        to_last, to_first = f32(0), f32(0)
                        for e in range(b):
                            to_last += logit[e] * hidden[h, e]
                            slope = logit[e] * weight if hidden[h, e] > 0 else f32(0)
                            hidden[h, e] = slope
                            to_first += slope
                        last[h] -= rate * to_last
                        d_first[h] = to_first
                        bias_1[h] -= rate * to_first
                    _add_product(dz[:b], hidden.T, from_item, f32(1))
                    _add_product(from_item, hidden, z[:b], -rate)
                    _descend(from_user, d_first, user, d_user, rate)
                else:
                    d_user[:] = 0
                    for e in range(b):
                        for k in range(d):
                            dz[e, k] = logit[e] * user[k]
                            d_user[k] += logit[e] * z[e, k]
                # back through the user's embedding
                if neighbours == 2:
                    for k in range(d):
                        d_user[k] = d_user[k] if user[k] > 0 else f32(0)
                        bias_2[k] -= rate * d_user[k]
                    _descend(matrix_2, d_user, inner, d_inner, rate)
                    _descend(matrix_1, d_inner, mean, d_mean, rate)
                    _descend(matrix_e, d_inner, features, nothing, rate)
                else:
                    d_mean[:] = d_user
                    _descend(matrix_e, d_user, features, nothing, rate)
                # the rows, and the mean of the device's own
                for e in range(b):
                    row = own[visit[e]]
                    for k in range(d):
                        row[k] -= rate * dz[e, k]
                    if positive[first + visit[e]]:
                        for k in range(d):
                            mean[k] -= rate * part * dz[e, k]
                if neighbours != 0:
                    for k in range(d):
                        moved = rate * part * d_mean[k]
                        mean[k] -= moved
                        shift[k] -= moved
                if len(tilt) or len(tilt_rows):
                    share = f32(b) / f32(size)
                    spent += share
                    share *= rate
                    for k in range(d):
                        mean[k] -= share * mean_tilt[k]
                    if len(tilt):
                        drawn = tilt[device]
                        after = mlp
                        if deep:
                            after += 2 * d * d
                            for h in range(d):
                                for k in range(d):
                                    from_user[h, k] -= share * drawn[mlp + 2 * d * h + k]
                                    from_item[h, k] -= share * drawn[mlp + 2 * d * h + d + k]
                        for k in range(mlp):
                            flat[k] -= share * drawn[k]
                        for k in range(after, len(flat)):
                            flat[k] -= share * drawn[k]

        for i in range(size):
            if positive[first + i]:
                for k in range(d):
                    own[i, k] += shift[k]
            if len(tilt_rows):
                for k in range(d):
                    own[i, k] -= rate * spent * tilt_rows[first + i, k]
        if deep:
            both = flat[mlp : mlp + 2 * d * d].reshape(d, 2 * d)
            both[:, :d] = from_user
            both[:, d:] = from_item
