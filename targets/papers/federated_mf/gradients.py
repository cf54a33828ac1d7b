"""Largest gradients of the federated-MF paper, by search with the code of the systems.

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
    item_gradients,
    project,
    turned_users,
)

_LENGTHS, _ANGLES, _RATINGS = np.linspace(0.0, 1.0, 6), np.linspace(0.0, 0.5, 7), 6


def largest(bound: float, *, ratings: int, joint: bool) -> float:
    """Longest sum of gradients of a user's ``ratings``, in U and V or in V alone, over a grid.

    The grid has all u and v of equation 6, with the same v and the same rating in [0, R] for each
    item of the user; it includes the corners.
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


def furthest(bound: float, *, same: bool) -> float:
    """Longest difference in V of the gradients of one rating and of a rating that replaces it.

    The search is over a grid of angles for both users, their ratings (0 stands for an arbitrarily
    low rating) and the item, or two items if not the ``same``; all embeddings have norm
    sqrt(bound).
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


def unclipped(bound: float, *, length: float) -> float:
    """Length of the gradient in V of one rating R, with an item of norm ``length`` sqrt(R).

    u has norm sqrt(R).
    """
    users = math.sqrt(bound) * np.array([[1.0, 0.0]])
    return float(_lengths(np.array([bound]), users, length * users, 1, joint=False)[0])


def turned(bound: float, *, ratings: int, fitting: int) -> float:
    """Change of a step's gradients in V by one more rating, through a pre-trained user embedding.

    The user has ratings of R for ``ratings`` items and may rate one more (``turned_users``); V is
    then 0, which another broadcast can set.
    """
    users = np.stack(turned_users(bound, 2, fitting, ratings))
    table = np.full((2, ratings + 1), bound)
    table[1, ratings] = 0.0
    ratings_of, items = sparse.csr_array(table), np.zeros((ratings + 1, 2))
    sums = [gradients(users[[k]], items, sparse.csr_array(ratings_of[[k]]))[1] for k in (0, 1)]
    return float(np.linalg.norm(sums[0] - sums[1]))


def nearest(bound: float) -> float:
    """Largest excess of the projection's distance over that of the best point on a grid.

    The projection takes two steps. The search is over points around the set of equation 6; the
    excess is at most 0 if the steps yield the nearest point.
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
    """Gradient lengths (n,) of n users with ``count`` items each, no two of whom share an item."""
    n, m = len(users), len(items)
    table = sparse.csr_array((ratings, np.arange(m), count * np.arange(n + 1)), shape=(n, m))
    of_users, of_items = gradients(users, items, table)
    squares = np.square(of_items).sum(axis=1).reshape(n, count).sum(axis=1)
    if joint:
        squares = squares + np.square(of_users).sum(axis=1)
    return np.asarray(np.sqrt(squares))
