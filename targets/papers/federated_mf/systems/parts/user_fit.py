"""User embeddings fitted on the device to fixed item embeddings, within the constraints.

The pre-training and fine-tuning of HFL-SGDMF and LFL-SGDMF: each user minimizes the sum of
(x - u.v)^2 over its ratings, u >= 0 and |u|^2 <= R (equation 6). The paper says neither how long
nor at what rate. Here: a fixed number of accelerated projected gradient steps (Beck and Teboulle
2009) from a fixed start, of length 1/L_u with L_u the trace of the user's Gram matrix, which no
curvature exceeds. A user's embedding depends on its own ratings and the items only, and draws
nothing. Users without ratings stay at the start.

Gram matrices come from one sparse product with the items' outer products: memory is
(n_items + _USERS) p^2 numbers, whatever the number of ratings.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedrec_auditor.targets.components import Floats
from fedrec_auditor.targets.compute import one_thread
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.papers.federated_mf.systems.parts.sgd_mf import explicit, project

FAINT = 1e-4
"""Length of first item embeddings that hardly hold a user, in units of sqrt(R)/ratings."""
_USERS = 4096


def neutral(factors: int, bound: float) -> NDArray[np.float64]:
    """Where every user starts: equal entries, norm^2 R/2."""
    return np.full(factors, math.sqrt(bound / (2.0 * factors)))


def fit_users(
    ratings: sparse.csr_array, items: Floats, *, bound: float, steps: int
) -> NDArray[np.float32]:
    """Embeddings (n, p) after ``steps`` steps from ``neutral`` towards the constrained optimum."""
    factors = items.shape[1]
    v = items.astype(np.float64)
    outer = (v[:, :, None] * v[:, None, :]).reshape(len(v), -1)
    out = np.empty((ratings.shape[0], factors), np.float32)
    for first in range(0, len(out), _USERS):
        table: Any = ratings[first : first + _USERS].astype(np.float64)
        held = table.copy()
        held.data[:] = 1.0
        gram = (held @ outer).reshape(-1, factors, factors)
        out[first : first + _USERS] = _descend(gram, table @ v, bound, steps)
    return out


def predicted(interactions: Interactions, items: Floats, *, bound: float, steps: int) -> Floats:
    """Predicted ratings u.v, (n_users, n_items), each user fitted to these items."""
    ratings = explicit(interactions, bound)
    with one_thread():
        return np.asarray(fit_users(ratings, items, bound=bound, steps=steps) @ items.T)


def turned_users(
    bound: float, factors: int, fitting: int, count: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Embeddings (p,) of a user who rated ``count`` items R, with one more such rating and without.

    The first V is faint in entry 1 for the ``count`` items, and long in entry 0 for the other one:
    the faint ones turn the embedding to entry 1 as long as nothing else holds it.
    """
    first = np.zeros((count + 1, factors))
    first[:count, 1] = FAINT * math.sqrt(bound) / count
    first[count, 0] = math.sqrt(bound)
    ratings = np.full((2, count + 1), bound)
    ratings[1, count] = 0.0
    there, gone = fit_users(sparse.csr_array(ratings), first, bound=bound, steps=fitting)
    return there.astype(np.float64), gone.astype(np.float64)


def rating_distance(bound: float, factors: int, fitting: int) -> float:
    """At least so far apart, along one direction, are messages with a rating and without it.

    A user has rated item 1, and item 2 or not, by R. The server chooses the first V, faint in one
    entry for item 1 and long in another one for item 2, and then broadcasts V = 0 in every round.
    Without the second rating the fitted embedding is b, and the message's mean -2R b in row 1; with
    it, it is a, and the mean -2R a in row 1 or in row 2, whichever rating is drawn. So the means
    differ by 2R (a - b, 0) or 2R (-b, a), and along the shortest vector between the two points by
    its length at least: 2R sqrt(R) sqrt(3/2) if a and b are orthogonal. Whichever is drawn: noise
    on that entry is normal, and the other users' gradients are fixed. 2 R^(3/2) with one factor,
    which a rating of a user without others reaches.
    """
    alone = 2.0 * bound * math.sqrt(bound)
    if factors < 2:
        return alone
    a, b = turned_users(bound, factors, fitting, 1)
    one, two = np.concatenate([a - b, np.zeros(factors)]), np.concatenate([-b, a])
    between = two - one
    share = float(np.clip(-(one @ between) / (between @ between), 0.0, 1.0))
    return max(alone, 2.0 * bound * float(np.linalg.norm(one + share * between)))


def _descend(
    gram: NDArray[np.float64], target: NDArray[np.float64], bound: float, steps: int
) -> NDArray[np.float64]:
    """Minimize u G u / 2 - b u for all users at once; ``gram`` (n, p, p), ``target`` (n, p)."""
    trace = np.einsum("nii->n", gram)
    length = np.where(trace > 0, 1.0 / np.where(trace > 0, trace, 1.0), 0.0)[:, None]
    u = np.broadcast_to(neutral(target.shape[1], bound), target.shape)
    ahead, momentum = u, 1.0
    for _ in range(steps):
        slope = np.matmul(gram, ahead[:, :, None])[:, :, 0] - target
        after: NDArray[np.float64] = np.asarray(project(ahead - length * slope, bound), np.float64)
        follow = (1.0 + math.sqrt(1.0 + 4.0 * momentum**2)) / 2.0
        ahead = after + (momentum - 1.0) / follow * (after - u)
        u, momentum = after, follow
    return u
