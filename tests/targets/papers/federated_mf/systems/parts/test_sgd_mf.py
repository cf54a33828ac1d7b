"""Shared parts: projection, trimming, rates, accounting, and fitted users.

User embeddings fitted on the device reach the constrained optimum from their own ratings only.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, sparse

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.papers.federated_mf.systems import central_systems
from fedrec_auditor.targets.papers.federated_mf.systems.central_systems import DpSgdMf, DpSgld, GdDr
from fedrec_auditor.targets.papers.federated_mf.systems.horizontal_systems import HflSynsgd
from fedrec_auditor.targets.papers.federated_mf.systems.local_systems import FmfLfl
from fedrec_auditor.targets.papers.federated_mf.systems.parts import sgd_mf
from fedrec_auditor.targets.papers.federated_mf.systems.vertical_systems import VflSgdmf
from fedrec_auditor.targets.streams import Streams
from tests.targets.papers.tables import make_table

TABLE = make_table(np.random.default_rng(0), 9, 12, 0.6)


def loss(u: np.ndarray, x: np.ndarray, v: np.ndarray) -> float:
    return float(np.square(x - v @ u).sum())


def test_many_steps_reach_the_constrained_optimum() -> None:
    """Compared with scipy's solver of the same problem, user by user."""
    ratings, items = TABLE, sgd_mf.init_embeddings(np.random.default_rng(1).random((12, 3)), 5.0)
    fitted = sgd_mf.fit_user_embeddings(ratings, items, bound=5.0, steps=3000)
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
    ratings, items = TABLE, sgd_mf.init_embeddings(np.random.default_rng(1).random((12, 4)), 5.0)
    whole = sgd_mf.fit_user_embeddings(ratings, items, bound=5.0, steps=7)
    for i in range(9):
        row = sparse.csr_array(ratings[[i]])
        alone = sgd_mf.fit_user_embeddings(row, items, bound=5.0, steps=7)
        np.testing.assert_array_equal(alone[0], whole[i])


def test_users_stay_without_ratings_or_steps() -> None:
    items = sgd_mf.init_embeddings(np.random.default_rng(1).random((12, 4)), 5.0)
    idle = sgd_mf.fit_user_embeddings(sparse.csr_array((2, 12)), items, bound=5.0, steps=9)
    none = sgd_mf.fit_user_embeddings(TABLE, items, bound=5.0, steps=0)
    assert np.square(idle).sum(axis=1) == pytest.approx(2.5)
    np.testing.assert_allclose(idle, np.tile(sgd_mf.make_initial_user(4, 5.0), (2, 1)), rtol=1e-6)
    np.testing.assert_allclose(none, np.tile(sgd_mf.make_initial_user(4, 5.0), (9, 1)), rtol=1e-6)


SEEDS = st.integers(0, 2**32 - 1)


@given(SEEDS, st.floats(0.2, 10.0))
def test_no_feasible_embedding_is_nearer_than_the_projection(seed: int, bound: float) -> None:
    rng = np.random.default_rng(seed)
    row = rng.normal(size=3) * rng.choice([0.1, 1.0, 10.0])
    found = sgd_mf.project_embeddings(row[None], bound)[0]
    assert (found >= 0).all()
    assert found @ found <= bound * (1 + 1e-12)
    # no step from it towards a feasible point comes nearer: the projection onto a convex set
    others = sgd_mf.project_embeddings(rng.normal(size=(200, 3)) * math.sqrt(bound), bound)
    assert ((others - found) @ (row - found)).max() <= 1e-9 * (1 + bound + row @ row)


def test_projection_keeps_the_dtype_and_leaves_feasible_rows_alone() -> None:
    rows = np.array([[0.0, 0.5], [1.0, 0.0]], dtype=np.float32)
    np.testing.assert_array_equal(sgd_mf.project_embeddings(rows, 1.0), rows)
    assert sgd_mf.project_embeddings(rows, 1.0).dtype == np.float32


@given(SEEDS, st.integers(1, 6))
def test_trimming_keeps_the_allowed_number_in_any_batch(seed: int, limit: int) -> None:
    rng = np.random.default_rng(seed)
    ratings, streams = make_table(rng), Streams.spawn(rng, 8)
    kept = sgd_mf.trim_ratings(ratings, limit, streams).toarray()
    dense = ratings.toarray()
    assert ((kept == dense) | (kept == 0)).all()
    np.testing.assert_array_equal(
        (kept != 0).sum(axis=1), np.minimum((dense != 0).sum(axis=1), limit)
    )
    for user in range(8):
        one = np.array([user])
        row = sparse.csr_array(ratings[one])
        alone = sgd_mf.trim_ratings(row, limit, streams.take(one)).toarray()
        np.testing.assert_array_equal(alone, kept[one])


def test_trimming_is_uniform_over_a_users_ratings() -> None:
    ratings: sparse.csr_array = sparse.csr_array(np.ones((40_000, 4), dtype=np.float32))
    kept = sgd_mf.trim_ratings(ratings, 1, Streams.spawn(np.random.default_rng(0), 40_000))
    seen = np.bincount(kept.indices, minlength=4)
    assert np.abs(seen - 10_000).max() < 6 * math.sqrt(40_000 * 3 / 16)


def test_at_least_one_row_is_drawn() -> None:
    assert sgd_mf.get_batch_size(250, 0.1) == 25
    assert sgd_mf.get_batch_size(3, 0.01) == 1


def test_the_rate_decreases_over_four_fifths_of_the_steps() -> None:
    rates = [sgd_mf.get_learning_rate(step, 100, 2.0) for step in range(100)]
    assert rates[0] == 2.0
    assert rates[40] == pytest.approx(2.0 * 0.76)
    assert sgd_mf.get_learning_rate(10**6, math.inf, 2.0) == 2.0
    assert rates[80:] == pytest.approx([2.0 * 0.52] * 20)


def test_first_embeddings_predict_the_middle_of_the_range() -> None:
    u, v = sgd_mf.init_embeddings(np.random.default_rng(0).random((2, 4000, 20)), 5.0)
    assert abs(np.einsum("ij,ij->i", u, v).mean() - 2.5) < 0.1
    assert np.square(u).sum(axis=1).mean() == pytest.approx(10 / 3, rel=0.02)
    assert u.dtype == np.float32


@pytest.mark.parametrize("factors", [1, 2, 20])
def test_first_embeddings_satisfy_equation_6(factors: int) -> None:
    """Without projection, embeddings of 1s have norm^2 = 2R, and a rating moves u by 4 R^(3/2)."""
    longest = sgd_mf.init_embeddings(np.stack([np.ones(factors), np.full(factors, 0.5)]), 5.0)
    np.testing.assert_allclose(np.square(longest).sum(axis=1), [5.0, 2.5], rtol=1e-6)
    assert (longest >= 0).all()


@pytest.mark.parametrize("worst", [5.5, -1.0])
def test_ratings_outside_the_range_are_refused(worst: float) -> None:
    good = Interactions.create(np.array([[5.0, 0.5]]))
    assert sgd_mf.check_ratings(good, 5.0) is good.ratings
    with pytest.raises(InputError, match="Expected ratings in"):
        sgd_mf.check_ratings(Interactions.create(np.array([[1.0, worst]])), 5.0)


def test_only_the_papers_accountant_amplifies() -> None:
    from dp_accounting import GaussianDpEvent, NonPrivateDpEvent, SelfComposedDpEvent

    # Abadi et al. 2016, section 5: q = 0.01, sigma = 4, T = 10,000 steps, delta 1e-5: 1.26
    assert sgd_mf.get_theorem_1_epsilon(4.0, 0.01, 10_000, 1e-5) == pytest.approx(1.26, abs=0.01)
    assert sgd_mf.get_authors_epsilon(4.0, 0.01, 10_000, 1e-5) < 0.85 * 1.26
    silent = 0.0, 0.01, 10, 1e-5
    assert sgd_mf.get_authors_epsilon(*silent) == sgd_mf.get_theorem_1_epsilon(*silent) == math.inf
    assert sgd_mf.get_theorem_1_epsilon(1.4144, 0.01, 1000, 1e-5) == pytest.approx(1.355, abs=5e-4)
    assert sgd_mf.make_gaussian_event(2.0, 7) == SelfComposedDpEvent(GaussianDpEvent(2.0), 7)
    assert sgd_mf.make_gaussian_event(0.0, 7, NonPrivateDpEvent) == NonPrivateDpEvent()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "kind", [VflSgdmf, DpSgdMf, DpSgld, HflSynsgd, FmfLfl, GdDr, central_systems.ObjPertb]
)
def test_training_at_the_largest_scale_stays_finite(kind: Any) -> None:
    small = {"rounds": 3, "tuning": 3, "sweeps": 3}
    named = {name: value for name, value in small.items() if name in kind.__dataclass_fields__}
    table = np.random.default_rng(0).integers(0, 6, (20, 12)) * 2e5
    data = Interactions.create(table)
    target = kind(bound=1e6, **named)
    run = target.run(data, np.random.default_rng(1))
    assert np.isfinite(target.score(run.model, data, np.arange(20))).all()
    (component, *_) = run.transcript.rounds[-1].uploads.components.values()
    assert np.isfinite(component.to_dense(np.arange(len(component)))).all()
