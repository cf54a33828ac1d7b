"""Compiled loops: minibatch Adam for BPR-MF and GMF.

This module imports numba, so import it only to train a model.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.targets.compiled import jit_compile

# Minibatch Adam for the two central factor models BPR-MF and GMF.
#
# A batch has ``batch`` consecutive positives of ``visits`` with all their negatives. Gradients are
# means over the batch's examples. Every batch ends with one step of Adam (decay rates 0.9 and
# 0.999, epsilon 1e-8) on all parameters, as in deep learning libraries.
#
# ``visits`` holds the users (n,), positives (n,) and negatives (n, k). ``decay`` is the weight of
# half the squared norm of an example's vectors. ``step`` is the number of steps taken before.

# ``_compiled`` is for functions that Python calls, ``_part`` for those that compiled code calls.
_compiled: Any = jit_compile()
_part: Any = jit_compile(cache=False)
# Type of an array of double-precision numbers.
Float64Array = NDArray[np.float64]


class AdamState(NamedTuple):
    """A parameter array with the state of its Adam optimizer; all four arrays have one shape.

    values: current values of the parameters.
    gradient: gradient summed over the current batch.
    mean: running mean of the gradient (first moment).
    mean_square: running mean of the squared gradient (second moment).
    """

    values: Float64Array
    gradient: Float64Array
    mean: Float64Array
    mean_square: Float64Array

    @classmethod
    def create(cls, values: Float64Array) -> Self:
        """Creates the state before the first step: the parameters ``values``, and zero moments."""
        return cls(values, *(np.zeros_like(values) for _ in range(3)))


@_part
def _step_adam(adam, rate, step):  # type: ignore[no-untyped-def]
    """Takes one step of Adam with the summed gradient, and clears the gradient."""
    size = rate / (1.0 - 0.9**step)
    scale = 1.0 / np.sqrt(1.0 - 0.999**step)
    for i in range(adam.values.shape[0]):
        for f in range(adam.values.shape[1]):
            g = adam.gradient[i, f]
            mean = 0.9 * adam.mean[i, f] + 0.1 * g
            square = 0.999 * adam.mean_square[i, f] + 0.001 * g * g
            adam.values[i, f] -= size * mean / (np.sqrt(square) * scale + 1e-8)
            adam.mean[i, f], adam.mean_square[i, f], adam.gradient[i, f] = (mean, square, 0.0)


@_compiled
def train_bpr(users, items, visits, batch, rate, decay, step):  # type: ignore[no-untyped-def]
    """Trains a BPR model by minibatch Adam on one chunk; returns the number of steps so far.

    The loss of an example is -ln sigmoid(x_u . (y_i - y_j)), for the vectors x_u of a user, y_i of
    a positive item, and y_j of a negative item (Rendle et al. 2009).

    ``users``, ``items``: vectors with their Adam states; updated in place.
    ``visits``: the chunk: users (n,), positives (n,) and negatives (n, k).
    ``batch``: number of positives per step.
    ``rate``: learning rate.
    ``decay``: weight of half the squared norm of an example's vectors.
    ``step``: number of optimizer steps before this chunk.
    """
    who, positives, negatives = visits
    x, y, dx, dy = users.values, items.values, users.gradient, items.gradient
    count, factors = negatives.shape[1], x.shape[1]
    for start in range(0, len(who), batch):
        stop = min(start + batch, len(who))
        share = 1.0 / ((stop - start) * count)
        for n in range(start, stop):
            u, i = who[n], positives[n]
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
        _step_adam(users, rate, step)
        _step_adam(items, rate, step)
    return step


@_compiled
def train_gmf(users, items, weights, visits, batch, rate, decay, step):  # type: ignore[no-untyped-def]
    """Trains a GMF model by minibatch Adam on one chunk; returns the number of steps so far.

    The loss of an example is the log loss of sigmoid(sum_f h_f x_uf y_if), for the vectors x_u of a
    user and y_i of an item. The label is 1 for positives and 0 for negatives (He et al. 2017).

    ``weights``: output weights h (1, F) with their Adam state; updated in place.

    ``train_bpr`` explains the other arguments.
    """
    who, positives, negatives = visits
    x, y, h = users.values, items.values, weights.values
    dx, dy, dh = users.gradient, items.gradient, weights.gradient
    count, factors = negatives.shape[1], x.shape[1]
    for start in range(0, len(who), batch):
        stop = min(start + batch, len(who))
        share = 1.0 / ((stop - start) * (1 + count))
        for n in range(start, stop):
            u = who[n]
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
        _step_adam(users, rate, step)
        _step_adam(items, rate, step)
        _step_adam(weights, rate, step)
    return step
