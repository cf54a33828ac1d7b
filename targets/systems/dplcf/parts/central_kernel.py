"""Minibatch Adam for two centralised factor models, compiled: BPR-MF and GMF.

Imports numba: import this module only where a model is trained. Positives come in the order in
which they are visited; each brings its own negatives, and a batch is so many positives with all of
theirs. Gradients are means over the batch's examples; every batch ends in one step of Adam (rates
0.9 and 0.999, epsilon 1e-8) on all parameters, as a deep learning library takes it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.targets.compiled import compiled

_compiled: Any = compiled()
Array = NDArray[np.float64]


class Adam:
    """Parameters with the state of their optimizer, updated in place by the kernels."""

    def __init__(self, values: Array) -> None:
        self.values = values
        self.gradient, self.mean, self.square = (np.zeros_like(values) for _ in range(3))


def bpr_epoch(
    users: Adam, items: Adam, visits: Any, *, batch: int, rate: float, decay: float, step: int
) -> int:
    """Rendle et al. 2009: minimise -ln sigmoid(x_u . (y_i - y_j)) + decay/2 |vectors|^2.

    ``visits`` are the users (n,), positives (n,) and negatives (n, k); returns the step reached.
    """
    reached: int = _bpr(*_parts(users), *_parts(items), *visits, batch, rate, decay, step)
    return reached


def gmf_epoch(
    users: Adam,
    items: Adam,
    weights: Adam,
    visits: Any,
    *,
    batch: int,
    rate: float,
    decay: float,
    step: int,
) -> int:
    """He et al. 2017: minimise the log loss of sigmoid(h . (x_u y_i)), 1 for positives else 0.

    ``weights`` hold h as (1, F); decay as in BPR. Returns the step reached.
    """
    reached: int = _gmf(
        *_parts(users), *_parts(items), *_parts(weights), *visits, batch, rate, decay, step
    )
    return reached


def _parts(adam: Adam) -> tuple[Array, Array, Array, Array]:
    return adam.values, adam.gradient, adam.mean, adam.square


@_compiled
def _adam(values, gradient, mean, square, rate, step):  # type: ignore[no-untyped-def]
    size = rate / (1.0 - 0.9**step)
    scale = 1.0 / np.sqrt(1.0 - 0.999**step)
    for i in range(values.shape[0]):
        for f in range(values.shape[1]):
            g = gradient[i, f]
            mean[i, f] = 0.9 * mean[i, f] + 0.1 * g
            square[i, f] = 0.999 * square[i, f] + 0.001 * g * g
            values[i, f] -= size * mean[i, f] / (np.sqrt(square[i, f]) * scale + 1e-8)
            gradient[i, f] = 0.0


@_compiled
def _bpr(  # type: ignore[no-untyped-def]
    x, dx, mx, sx, y, dy, my, sy, users, positives, negatives, batch, rate, decay, step
):
    count, factors = negatives.shape[1], x.shape[1]
    for start in range(0, len(users), batch):
        stop = min(start + batch, len(users))
        share = 1.0 / ((stop - start) * count)
        for n in range(start, stop):
            u, i = users[n], positives[n]
            for k in range(count):
                j = negatives[n, k]
                margin = 0.0
                for f in range(factors):
                    margin += x[u, f] * (y[i, f] - y[j, f])
                pull = -share / (1.0 + np.exp(margin))
                for f in range(factors):
                    dx[u, f] += pull * (y[i, f] - y[j, f]) + share * decay * x[u, f]
                    dy[i, f] += pull * x[u, f] + share * decay * y[i, f]
                    dy[j, f] += -pull * x[u, f] + share * decay * y[j, f]
        step += 1
        _adam(x, dx, mx, sx, rate, step)
        _adam(y, dy, my, sy, rate, step)
    return step


@_compiled
def _gmf(  # type: ignore[no-untyped-def]
    x,
    dx,
    mx,
    sx,
    y,
    dy,
    my,
    sy,
    h,
    dh,
    mh,
    sh,
    users,
    positives,
    negatives,
    batch,
    rate,
    decay,
    step,
):
    count, factors = negatives.shape[1], x.shape[1]
    for start in range(0, len(users), batch):
        stop = min(start + batch, len(users))
        share = 1.0 / ((stop - start) * (1 + count))
        for n in range(start, stop):
            u = users[n]
            for k in range(count + 1):
                i = positives[n] if k == count else negatives[n, k]
                score = 0.0
                for f in range(factors):
                    score += h[0, f] * x[u, f] * y[i, f]
                error = share * (1.0 / (1.0 + np.exp(-score)) - (k == count))
                for f in range(factors):
                    dx[u, f] += error * h[0, f] * y[i, f] + share * decay * x[u, f]
                    dy[i, f] += error * h[0, f] * x[u, f] + share * decay * y[i, f]
                    dh[0, f] += error * x[u, f] * y[i, f]
        step += 1
        _adam(x, dx, mx, sx, rate, step)
        _adam(y, dy, my, sy, rate, step)
        _adam(h, dh, mh, sh, rate, step)
    return step
