"""User embeddings fitted on the device: the constrained optimum, from the own ratings only."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize, sparse

from fedrec_auditor.targets.papers.federated_mf.systems.parts.sgd_mf import (
    fit_users,
    neutral,
    start,
)
from tests.targets.papers.made import table

TABLE = table(np.random.default_rng(0), 9, 12, 0.6)


def loss(u: np.ndarray, x: np.ndarray, v: np.ndarray) -> float:
    return float(np.square(x - v @ u).sum())


def test_many_steps_reach_the_constrained_optimum() -> None:
    """Held to scipy's solver of the same problem, user by user."""
    ratings, items = TABLE, start(np.random.default_rng(1).random((12, 3)), 5.0)
    fitted = fit_users(ratings, items, bound=5.0, steps=3000)
    for i, u in enumerate(fitted.astype(np.float64)):
        row = ratings[[i]]
        x, v = row.data.astype(float), items[row.indices].astype(float)
        best = optimize.minimize(
            loss,
            np.ones(3),
            args=(x, v),
            method="SLSQP",
            bounds=[(0, None)] * 3,
            constraints={"type": "ineq", "fun": lambda w: 5.0 - w @ w},
            options={"ftol": 1e-12, "maxiter": 500},
        )
        assert loss(u, x, v) <= best.fun * (1 + 1e-4) + 1e-4
        assert (u >= 0).all()
        assert u @ u <= 5.0 * (1 + 1e-5)


def test_a_user_depends_on_its_own_ratings_only() -> None:
    ratings, items = TABLE, start(np.random.default_rng(1).random((12, 4)), 5.0)
    whole = fit_users(ratings, items, bound=5.0, steps=7)
    for i in range(9):
        alone = fit_users(sparse.csr_array(ratings[[i]]), items, bound=5.0, steps=7)
        np.testing.assert_array_equal(alone[0], whole[i])


def test_nobody_moves_without_ratings_or_without_steps() -> None:
    items = start(np.random.default_rng(1).random((12, 4)), 5.0)
    idle = fit_users(sparse.csr_array((2, 12)), items, bound=5.0, steps=9)
    none = fit_users(TABLE, items, bound=5.0, steps=0)
    assert np.square(idle).sum(axis=1) == pytest.approx(2.5)
    np.testing.assert_allclose(idle, np.tile(neutral(4, 5.0), (2, 1)), rtol=1e-6)
    np.testing.assert_allclose(none, np.tile(neutral(4, 5.0), (9, 1)), rtol=1e-6)
