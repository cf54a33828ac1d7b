"""Largest gradients of the federated-MF paper's systems, to check the sensitivities that it states.

The functions search over grids. Embeddings have two entries, which suffices because a user's and an
item's embedding span a plane.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedrec_auditor.targets.components import Floats
from fedrec_auditor.targets.mechanisms.gaussian_mechanisms import clip_embedding
from fedrec_auditor.targets.papers.federated_mf.systems.parts import sgd_mf
from fedrec_auditor.targets.papers.federated_mf.systems.parts.descent import sum_gradients

_LENGTHS, _ANGLES, _RATINGS = np.linspace(0.0, 1.0, 6), np.linspace(0.0, 0.5, 7), 6


def find_max_gradient_norm(bound: float, *, ratings: int, with_users: bool) -> float:
    """Returns the largest norm of summed gradients of a user with this number of ``ratings``, on a
    grid of embeddings and ratings.

    ``bound``: R, the largest possible rating.
    ``ratings``: number of the user's ratings, which are all equal.
    ``with_users``: whether the norm includes gradients with respect to user embeddings.

    Embeddings satisfy equation 6 (entries >= 0, norm^2 <= R). The result is a lower bound of the
    sensitivity.
    """
    # The grid includes the extreme values. Ratings are in (0, R]. All items have the same
    # embedding.
    root = math.sqrt(bound)
    values = np.linspace(0.0, bound, _RATINGS + 1)[1:]
    grid = np.meshgrid(_LENGTHS, _LENGTHS, _ANGLES, _ANGLES, values, indexing="ij")
    u_length, v_length, u_angle, v_angle, rating = (axis.ravel() for axis in grid)

    def embed(length: NDArray[np.float64], angle: NDArray[np.float64]) -> Floats:
        """Returns projected embeddings, one per row, from their lengths (in units of sqrt(R)) and
        angles (in units of pi).
        """
        turn = np.stack([np.cos(np.pi * angle), np.sin(np.pi * angle)], axis=1)
        return sgd_mf.project_embeddings(root * length[:, None] * turn, bound)

    users, items = embed(u_length, u_angle), np.repeat(embed(v_length, v_angle), ratings, axis=0)
    return float(_list_norms(np.repeat(rating, ratings), users, items, ratings, with_users).max())


def find_max_gradient_distance(bound: float, *, is_same_item: bool) -> float:
    """Returns the largest distance between the item gradients of two users, over a grid of angles.

    ``bound``: R, the largest possible rating.
    ``is_same_item``: whether both users rate the same item.

    Each user has one rating, R or 0 (0 stands for an arbitrarily low rating). All embeddings have
    norm sqrt(R).
    """
    # The grid has the angles between the item embedding and each user embedding.
    angles = np.linspace(0.0, np.pi / 2.0, 181)
    turn = math.sqrt(bound) * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    item = math.sqrt(bound) * np.array([[1.0, 0.0]])
    items, ratings = np.repeat(item, len(turn), axis=0), np.full(len(turn), bound)
    rows = np.concatenate(
        [sgd_mf.compute_item_gradients(turn, items, rating) for rating in (ratings, 0.0 * ratings)]
    ).astype(np.float64)
    squares = np.square(rows).sum(axis=1)
    if not is_same_item:
        return math.sqrt(2.0 * squares.max())
    apart = squares[:, None] + squares - 2.0 * rows @ rows.T
    return math.sqrt(float(apart.max()))


def compute_item_gradient_norm(bound: float, *, length: float) -> float:
    """Returns the norm of one rating's gradient with respect to an item embedding of any length.

    ``bound``: R, the largest possible rating, which is also the rating here.
    ``length``: norm of the item embedding, in units of sqrt(R); at most 1 in the paper.

    The user embedding has norm sqrt(R) and the same direction.
    """
    users = math.sqrt(bound) * np.array([[1.0, 0.0]])
    return float(_list_norms(np.array([bound]), users, length * users, 1, with_users=False)[0])


def compute_shift_by_rating(bound: float, *, ratings: int, n_fit_steps: int) -> float:
    """Returns the norm by which one more rating of a user changes a step's sum of item gradients.

    ``bound``: R, the largest possible rating.
    ``ratings``: number of the user's other ratings, all equal to R.
    ``n_fit_steps``: number of steps that fit the user embedding to the initial item embeddings.

    A malicious server chooses initial item embeddings with which the rating turns the user
    embedding. Then it broadcasts item embeddings of 0.
    """
    # The user embedding is fitted to all ratings of the user. The additional rating changes it, and
    # with it the gradients of the user's other ratings.
    users = np.stack(sgd_mf.fit_neighbouring_users(bound, 2, n_fit_steps, ratings))
    table = np.full((2, ratings + 1), bound)
    table[1, ratings] = 0.0
    ratings_of, items = sparse.csr_array(table), np.zeros((ratings + 1, 2))
    sums = [sum_gradients(users[[k]], items, sparse.csr_array(ratings_of[[k]]))[1] for k in (0, 1)]
    return float(np.linalg.norm(sums[0] - sums[1]))


def find_embedding_clip_error(bound: float) -> float:
    """Returns the largest error of the projection onto the set of equation 6, at random points.

    The set has the embeddings with entries >= 0 and norm^2 <= R, where R is ``bound``. The error is
    the distance to the projected point, minus that to the nearest point of a grid in the set. A
    right projection has an error of at most 0.
    """
    # The projection raises negative entries to 0, and then shortens long embeddings.
    points = np.random.default_rng(0).uniform(-2.0, 2.0, (60, 2)) * math.sqrt(bound)
    length, angle = np.meshgrid(np.linspace(0, 1, 81), np.linspace(0, math.pi / 2, 81))
    grid = math.sqrt(bound) * np.stack([length * np.cos(angle), length * np.sin(angle)], axis=-1)
    best = np.linalg.norm(points[:, None] - grid.reshape(-1, 2), axis=-1).min(axis=1)
    return float((np.linalg.norm(points - clip_embedding(points, bound), axis=-1) - best).max())


def _list_norms(
    ratings: NDArray[np.float64], users: Floats, items: Floats, count: int, with_users: bool
) -> NDArray[np.float64]:
    """Returns the norms of the summed gradients of n users, (n,), who have no items in common.

    ``ratings``, ``items``: ratings and item embeddings, ``count`` per user, user after user.
    ``users``: user embeddings, (n, 2).
    ``with_users``: whether the norm includes gradients with respect to user embeddings.
    """
    n, m = len(users), len(items)
    table = sparse.csr_array((ratings, np.arange(m), count * np.arange(n + 1)), shape=(n, m))
    of_users, of_items = sum_gradients(users, items, table)
    squares = np.square(of_items).sum(axis=1).reshape(n, count).sum(axis=1)
    if with_users:
        squares = squares + np.square(of_users).sum(axis=1)
    return np.asarray(np.sqrt(squares))
