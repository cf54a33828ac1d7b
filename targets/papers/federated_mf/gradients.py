"""Largest gradients of the systems of the federated-MF paper, by grid search with their own code.

Embeddings of two entries suffice, because a user's and an item's embedding span a plane.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedrec_auditor.targets.components import Floats
from fedrec_auditor.targets.mechanisms.gaussian_mechanisms import clip_embedding
from fedrec_auditor.targets.papers.federated_mf.systems.parts.descent import gradients
from fedrec_auditor.targets.papers.federated_mf.systems.parts.sgd_mf import (
    fitted_user_pair,
    item_gradients,
    project,
)

_LENGTHS, _ANGLES, _RATINGS = np.linspace(0.0, 1.0, 6), np.linspace(0.0, 0.5, 7), 6


def max_gradient(bound: float, *, ratings: int, joint: bool) -> float:
    """Largest norm of a user's summed gradients, by a search over a grid.

    ``bound``: R, the largest possible rating.
    ``ratings``: number of the user's ratings.
    ``joint``: whether the norm is over the gradients in user and item embeddings, instead of item
        embeddings alone.

    The grid covers all u and v of equation 6 and all ratings in [0, R], including the corners. The
    user gives each item the same rating, and all items have the same v.
    """
    root = math.sqrt(bound)
    u_length, v_length, u_angle, v_angle, rating = (
        axis.ravel()
        for axis in np.meshgrid(
            _LENGTHS,
            _LENGTHS,
            _ANGLES,
            _ANGLES,
            np.linspace(0.0, bound, _RATINGS + 1)[1:],
            indexing="ij",
        )
    )

    def rows(length: NDArray[np.float64], angle: NDArray[np.float64]) -> Floats:
        turn = np.stack([np.cos(np.pi * angle), np.sin(np.pi * angle)], axis=1)
        return project(root * length[:, None] * turn, bound)

    users, items = rows(u_length, u_angle), np.repeat(rows(v_length, v_angle), ratings, axis=0)
    return float(_lengths(np.repeat(rating, ratings), users, items, ratings, joint).max())


def max_distance(bound: float, *, same: bool) -> float:
    """Largest distance between the item gradients of one rating and of its replacement.

    ``bound``: R, the largest possible rating.
    ``same``: whether both ratings are of the same item.

    The search is over a grid of angles between the item and each of the two users, with a rating of
    R or 0 for each user (0 stands for an arbitrarily low rating). All embeddings have norm sqrt(R).
    """
    angles = np.linspace(0.0, np.pi / 2.0, 181)
    turn = math.sqrt(bound) * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    item = math.sqrt(bound) * np.array([[1.0, 0.0]])
    items, ratings = np.repeat(item, len(turn), axis=0), np.full(len(turn), bound)
    rows = np.concatenate(
        [item_gradients(turn, items, rating) for rating in (ratings, 0.0 * ratings)]
    ).astype(np.float64)
    squares = np.square(rows).sum(axis=1)
    if not same:
        return math.sqrt(2.0 * squares.max())
    apart = squares[:, None] + squares - 2.0 * rows @ rows.T
    return math.sqrt(float(apart.max()))


def unclipped_norm(bound: float, *, length: float) -> float:
    """Norm of the item gradient of one rating R, for an item of norm ``length`` sqrt(R).

    The user embedding has norm sqrt(R), where R is ``bound``.
    """
    users = math.sqrt(bound) * np.array([[1.0, 0.0]])
    return float(_lengths(np.array([bound]), users, length * users, 1, joint=False)[0])


def rating_shift(bound: float, *, ratings: int, fitting: int) -> float:
    """Change of a step's item gradients by one more rating, through a fitted user embedding.

    ``bound``: R, the largest possible rating.
    ``ratings``: number of the user's other ratings, all equal to R.
    ``fitting``: number of steps that fit the user embedding to the first item embeddings.

    The server chooses the first item embeddings of ``fitted_user_pair``, and then broadcasts item
    embeddings of 0.
    """
    users = np.stack(fitted_user_pair(bound, 2, fitting, ratings))
    table = np.full((2, ratings + 1), bound)
    table[1, ratings] = 0.0
    ratings_of, items = sparse.csr_array(table), np.zeros((ratings + 1, 2))
    sums = [gradients(users[[k]], items, sparse.csr_array(ratings_of[[k]]))[1] for k in (0, 1)]
    return float(np.linalg.norm(sums[0] - sums[1]))


def max_excess(bound: float) -> float:
    """Largest excess of the distance to the projected point over that to the best grid point.

    The two-step projection is applied to random points around the set of equation 6. The excess is
    at most 0 if it yields the nearest point of the set. ``bound`` is R.
    """
    rng = np.random.default_rng(0)
    points = rng.uniform(-2.0, 2.0, (60, 2)) * math.sqrt(bound)
    length, angle = np.meshgrid(np.linspace(0, 1, 81), np.linspace(0, math.pi / 2, 81))
    grid = math.sqrt(bound) * np.stack([length * np.cos(angle), length * np.sin(angle)], axis=-1)
    best = np.linalg.norm(points[:, None] - grid.reshape(-1, 2), axis=-1).min(axis=1)
    return float((np.linalg.norm(points - clip_embedding(points, bound), axis=-1) - best).max())


def _lengths(
    ratings: NDArray[np.float64], users: Floats, items: Floats, count: int, joint: bool
) -> NDArray[np.float64]:
    """Gradient norms (n,) of n users with ``count`` items each, none of which two users share."""
    n, m = len(users), len(items)
    table = sparse.csr_array((ratings, np.arange(m), count * np.arange(n + 1)), shape=(n, m))
    of_users, of_items = gradients(users, items, table)
    squares = np.square(of_items).sum(axis=1).reshape(n, count).sum(axis=1)
    if joint:
        squares = squares + np.square(of_users).sum(axis=1)
    return np.asarray(np.sqrt(squares))
