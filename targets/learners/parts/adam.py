"""Local training by Adam, one device after the other, compiled by numba.

Forward and backward are those of ``fused``, but gradients are kept, and every parameter of the
device, its touched item rows included, takes a step at every minibatch, as torch's dense Adam does:
a row moves on after the batch that it was in. Moments begin at zero in every round, as a device
keeps nothing between rounds; they last from epoch to epoch, also where noise falls between. A
device's result is the same to the bit in any batch of devices, in any number of threads.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.targets.compiled import REORDERED, compiled
from fedrec_auditor.targets.learners.parts.fused import (
    F32,
    Flags,
    apply,
    embed,
    gradient_dot,
    join,
    score,
    slopes,
    split,
)
from fedrec_auditor.targets.learners.parts.work import BETA_1, BETA_2, TINY

_compiled = compiled(fastmath=REORDERED, error_model="numpy")
_part = compiled(kept=False, fastmath=REORDERED, error_model="numpy")


@_part
def _move(
    p: F32, g: F32, m: F32, v: F32, rate: np.float32, scale: np.float32, tiny: np.float32
) -> None:
    """One step of Adam; ``rate`` and ``scale`` hold the corrections of its moments."""
    keep_1, keep_2 = np.float32(BETA_1), np.float32(BETA_2)
    new_1, new_2 = np.float32(1 - BETA_1), np.float32(1 - BETA_2)
    for k in range(len(p)):
        m[k] = keep_1 * m[k] + new_1 * g[k]
        v[k] = keep_2 * v[k] + new_2 * g[k] * g[k]
        p[k] -= rate * m[k] / (scale * np.sqrt(v[k]) + tiny)


@_part
def _outer(gradient: F32, back: F32, matrix: F32, out: F32, vector: F32) -> None:
    """Gradient = out (x) vector; back = matrix^T out."""
    back[:] = 0
    for i in range(len(out)):
        for j in range(len(vector)):
            gradient[i, j] = out[i] * vector[j]
            back[j] += out[i] * matrix[i, j]


@_part
def _gradient_mlp(
    g_tail: F32,
    g_item: F32,
    d_first: F32,
    dz: F32,
    slope: F32,
    hidden: F32,
    z: F32,
    from_item: F32,
    tail: F32,
) -> None:
    """Gradients of the last layer, of the item half of the first, and of the rows."""
    d = len(hidden)
    total = np.float32(0)
    for e in range(len(slope)):
        total += slope[e]
    g_tail[2 * d] = total
    for h in range(d):
        weight, to_last, to_first = tail[d + h], np.float32(0), np.float32(0)
        for e in range(len(slope)):
            to_last += slope[e] * hidden[h, e]
            back = slope[e] * weight if hidden[h, e] > 0 else np.float32(0)
            hidden[h, e] = back
            to_first += back
        d_first[h] = to_first
        g_tail[d + h] = to_last
        g_tail[h] = to_first
    np.dot(hidden.T, from_item.T, dz)
    np.dot(z.T, hidden.T, g_item)


@_compiled
def train_adam(
    devices: NDArray[np.int64],
    starts: NDArray[np.int64],
    sizes: NDArray[np.int64],
    order: NDArray[np.int32],
    positive: Flags,
    x: F32,
    theta: F32,
    rows: F32,
    linear_term: F32,
    linear_rows: F32,
    neighbours: int,
    deep: bool,
    squared: bool,
    rate: np.float32,
    batch: int,
    kept: F32,
    kept_rows: F32,
    done: int,
) -> None:
    """Trains ``devices`` in place: arguments as ``fused.train_fused`` has them.

    Moments begin and end in ``kept`` (2, n, P) and ``kept_rows`` (2, nnz, d) if these are not
    empty, after ``done`` epochs.
    """
    width, d, widest = x.shape[1], rows.shape[1], sizes.max()
    z, dz = np.zeros((batch, d), np.float32), np.zeros((batch, d), np.float32)
    layer, logits = np.zeros(d * batch, np.float32), np.zeros(batch, np.float32)
    vectors = np.zeros((8, d), np.float32)
    mean, z_u, inner, user = vectors[0], vectors[1], vectors[2], vectors[3]
    d_z_u, d_mean, d_user, d_first = vectors[4], vectors[5], vectors[6], vectors[7]
    moments = np.zeros((4, theta.shape[1]), np.float32)
    p, g = moments[0], moments[1]
    row_state = np.zeros((3, widest * d), np.float32)
    mlp = d * width + (2 * d * d + d if neighbours == 2 else 0)
    top = mlp + 2 * d * d if deep else mlp
    e_, g_e = p[: d * width].reshape(d, width), g[: d * width].reshape(d, width)
    from_user, from_item, g_user, g_item = z, z, z, z  # set where there are any
    w_1, w_2, g_1, g_2, bias, g_bias = z, z, z, z, mean, mean
    if neighbours == 2:
        one, two = d * width, d * width + d * d
        w_1, g_1 = p[one:two].reshape(d, d), g[one:two].reshape(d, d)
        w_2, g_2 = p[two : mlp - d].reshape(d, d), g[two : mlp - d].reshape(d, d)
        bias, g_bias = p[mlp - d : mlp], g[mlp - d : mlp]
    if deep:
        half = mlp + d * d
        from_user, g_user = p[mlp:half].reshape(d, d), g[mlp:half].reshape(d, d)
        from_item, g_item = p[half:top].reshape(d, d), g[half:top].reshape(d, d)
    tail, g_tail = p[top:], g[top:]
    for place in range(len(devices)):
        first, size = starts[place], sizes[place]
        own, mine = rows[first : first + size], positive[first : first + size]
        features, flat = x[devices[place]], theta[devices[place]]
        for k in range(len(p)):
            p[k] = flat[k]
        if deep:
            split(from_user, from_item, flat[mlp:top].reshape(d, 2 * d))
        moments[2:] = 0
        row_state[:] = 0
        for which in range(len(kept)):
            for k in range(len(p)):
                moments[2 + which, k] = kept[which, devices[place], k]
            for i in range(size):
                for k in range(d):
                    row_state[1 + which, i * d + k] = kept_rows[which, first + i, k]
        d_rows = row_state[0][: size * d].reshape(size, d)
        held = 0
        for i in range(size):
            held += mine[i]
        part = np.float32(1) / np.float32(held)
        steps = done * ((size + batch - 1) // batch)
        decay_1, decay_2 = BETA_1**steps, BETA_2**steps
        for epoch in range(order.shape[0]):
            for start in range(0, size, batch):
                visit = order[epoch, place, start : min(start + batch, size)]
                b = len(visit)
                share = np.float32(b) / np.float32(size)
                logit, hidden = logits[:b], layer[: d * b].reshape(d, b)
                for e in range(b):
                    for k in range(d):
                        z[e, k] = own[visit[e], k]
                if neighbours != 0:
                    mean[:] = 0
                    for i in range(size):
                        if mine[i]:
                            for k in range(d):
                                mean[k] += part * own[i, k]
                apply(z_u, e_, features)
                embed(user, inner, z_u, mean, w_1, w_2, bias, neighbours)
                if deep:
                    score(logit, hidden, z[:b], user, from_user, from_item, tail, d_first)
                    slopes(logit, mine, visit, squared)
                    _gradient_mlp(
                        g_tail, g_item, d_first, dz[:b], logit, hidden, z[:b], from_item, tail
                    )
                    _outer(g_user, d_user, from_user, d_first, user)
                else:
                    apply(logit, z[:b], user)
                    slopes(logit, mine, visit, squared)
                    gradient_dot(d_user, dz, logit, z, user)
                if neighbours == 2:
                    for k in range(d):
                        d_user[k] = d_user[k] if user[k] > 0 else np.float32(0)
                        g_bias[k] = d_user[k]
                    _outer(g_2, d_z_u, w_2, d_user, inner)
                    _outer(g_1, d_mean, w_1, d_z_u, mean)
                else:
                    for k in range(d):
                        d_z_u[k] = d_mean[k] = d_user[k]
                for h in range(d):
                    for k in range(width):
                        g_e[h, k] = d_z_u[h] * features[k]
                for i in range(size):
                    if mine[i] and neighbours != 0:
                        for k in range(d):
                            d_rows[i, k] = part * d_mean[k]
                    else:
                        for k in range(d):
                            d_rows[i, k] = 0
                for e in range(b):
                    for k in range(d):
                        d_rows[visit[e], k] += dz[e, k]
                if len(linear_rows):
                    for i in range(size):
                        for k in range(d):
                            d_rows[i, k] += share * linear_rows[first + i, k]
                if len(linear_term):
                    drawn = linear_term[devices[place]]
                    for k in range(len(p)):
                        if k < mlp or k >= top:
                            g[k] += share * drawn[k]
                    if deep:
                        weight = drawn[mlp:top].reshape(d, 2 * d)
                        for h in range(d):
                            for k in range(d):
                                g_user[h, k] += share * weight[h, k]
                                g_item[k, h] += share * weight[h, d + k]
                decay_1 *= BETA_1
                decay_2 *= BETA_2
                step = np.float32(rate / (1 - decay_1))
                scale = np.float32(1 / np.sqrt(1 - decay_2))
                tiny = np.float32(TINY)
                _move(p, g, moments[2], moments[3], step, scale, tiny)
                count = size * d
                _move(
                    own.ravel(),
                    row_state[0][:count],
                    row_state[1][:count],
                    row_state[2][:count],
                    step,
                    scale,
                    tiny,
                )
        for which in range(len(kept)):
            for k in range(len(p)):
                kept[which, devices[place], k] = moments[2 + which, k]
            for i in range(size):
                for k in range(d):
                    kept_rows[which, first + i, k] = row_state[1 + which, i * d + k]
        for k in range(len(p)):
            flat[k] = p[k]
        if deep:
            join(flat[mlp:top].reshape(d, 2 * d), from_user, from_item)
