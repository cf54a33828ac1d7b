"""User vectors in closed form and item gradients of implicit matrix factorization.

For one user with interacted items S, preference p = 1 on S and 0 elsewhere, confidence
c = 1 + alpha on S and 1 elsewhere, and the broadcast item matrix V (M, F):

    x = (V^T C V + lambda I)^-1 V^T C p            (Minto et al. 2021, equation 4)
    G = (C (p - V x)) x^T                          (equation 5, for all M items)

C differs from the identity on S only, so with W the rows of V in S the system matrix is
V^T V + lambda I + alpha W^T W, of which the first part is shared by all users (Hu, Koren and
Volinsky 2008), and G = (s - V x) x^T with s = c - (c - 1) x.v on S and zero elsewhere. With
L L^T = V^T V + lambda I, Z = W L^-T and x = L^-T y,

    y = (1 + alpha) (I + alpha Z^T Z)^-1 Z^T 1 = (1 + alpha) Z^T (I + alpha Z Z^T)^-1 1,

so that users with fewer than F interactions need a system of the size of their history only. Both
systems have eigenvalues in [1, 1 + alpha], as W^T W is part of V^T V.

Users are sorted by activity and solved in padded batches of at most ``BLOCK`` numbers, so that
memory beyond the result does not grow with the number of users. One BLAS thread: batches are
small, and results do not depend on what else the machine does.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import solve_triangular
from threadpoolctl import ThreadpoolController

from accountants.errors import InputError
from targets.components import Floats, RankOne

# Numbers in one padded batch: 0.5 MiB of float64, so that two fit a second-level cache.
BLOCK = 1 << 16


@cache
def one_thread() -> ThreadpoolController:
    """The BLAS pools of this process; ``.limit(limits=1)`` holds them at one thread."""
    return ThreadpoolController()


def user_vectors(
    items: Floats, touched: sparse.csr_array, *, alpha: float, regularization: float
) -> Floats:
    """Equation 4 for every row of ``touched`` (n, M), whose stored entries count as 1: (n, F)."""
    vectors, _ = _solve(items, touched, alpha, regularization)
    return vectors


def item_gradients(
    items: Floats, touched: sparse.csr_array, *, alpha: float, regularization: float
) -> RankOne:
    """Equation 5 for every row of ``touched`` and every item, as the factors of each gradient."""
    vectors, predicted = _solve(items, touched, alpha, regularization)
    corrections = sparse.csr_array(
        (1.0 + alpha - alpha * predicted, touched.indices, touched.indptr), shape=touched.shape
    )
    return RankOne(vectors=vectors, items=items, corrections=corrections)


def _solve(
    items: Floats, touched: sparse.csr_array, alpha: float, regularization: float
) -> tuple[Floats, Floats]:
    """The user vectors (n, F), and x.v at every stored entry of ``touched``, in its order."""
    count, factors = items.shape
    columns = np.append(touched.indices, count)
    whitened = np.zeros((touched.shape[0], factors))
    predicted = np.empty(touched.nnz)
    with one_thread().limit(limits=1, user_api="blas"):
        try:
            root = np.linalg.cholesky(items.T @ items + regularization * np.eye(factors))
        except np.linalg.LinAlgError:
            raise InputError(
                "Expected V^T V + lambda I to be positive definite in floating point, got "
                f"regularization={regularization!r} for a singular V. Give a larger one."
            ) from None
        padded = np.zeros((count + 1, factors))  # the last row pads short users
        padded[:count] = solve_triangular(root, items.T, lower=True).T
        for users, positions, held in _batches(touched.indptr, factors):
            rows = padded.take(columns[positions], axis=0)
            across = rows.transpose(0, 2, 1)
            if held.shape[1] < factors:
                weights = np.linalg.solve(_ridge(rows @ across, alpha), np.ones((*held.shape, 1)))
                y = across @ weights
            else:
                y = np.linalg.solve(_ridge(across @ rows, alpha), rows.sum(axis=1)[:, :, None])
            whitened[users] = y[:, :, 0]
            predicted[positions[held]] = (rows @ y)[:, :, 0][held]
        vectors = solve_triangular(root, whitened.T, lower=True, trans="T").T
    return (1.0 + alpha) * vectors, (1.0 + alpha) * predicted


def _ridge(gram: Floats, alpha: float) -> Floats:
    """I + alpha gram, in place, for a batch of Gram matrices."""
    gram *= alpha
    diagonal = np.arange(gram.shape[-1])
    gram[:, diagonal, diagonal] += 1.0
    return gram


def _batches(
    indptr: NDArray[np.integer[Any]], factors: int
) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.bool_]]]:
    """Users of like activity (b,), positions of their entries (b, width), which of them exist.

    Where there is none the position is one beyond the last.
    """
    activity = np.diff(indptr)
    order = np.argsort(-activity, kind="stable")
    start = 0
    while start < len(order):
        width = max(int(activity[order[start]]), 1)
        stop = start + max(BLOCK // ((width + factors) * factors), 1)
        users = order[start:stop]
        offsets = np.arange(width)
        held = offsets < activity[users, None]
        yield users, np.where(held, indptr[users, None] + offsets, indptr[-1]), held
        start = stop
