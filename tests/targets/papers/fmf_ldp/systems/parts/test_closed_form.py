"""The closed form against equations 4 and 5 written out for one user at a time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.papers.fmf_ldp.systems.parts import implicit_mf as _closed_form
from fedrec_auditor.targets.papers.fmf_ldp.systems.parts.implicit_mf import item_gradients


def oracle(
    items: np.ndarray, profile: np.ndarray, alpha: float, regularization: float
) -> tuple[np.ndarray, np.ndarray]:
    """Equations 4 and 5 with a dense C^u (V is M x F here)."""
    preference = (profile > 0).astype(float)
    confidence = np.diag(1.0 + alpha * preference)
    system = items.T @ confidence @ items + regularization * np.eye(items.shape[1])
    x = np.linalg.solve(system, items.T @ confidence @ preference)
    gradient = np.array(
        [confidence[i, i] * (preference[i] - x @ items[i]) * x for i in range(len(items))]
    )
    return x, gradient


@st.composite
def problems(draw: st.DrawFn) -> tuple[np.ndarray, sparse.csr_array, float, float]:
    users, n_items, factors = (
        draw(st.integers(0, 9)),
        draw(st.integers(1, 12)),
        draw(st.integers(1, 11)),
    )
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    held = rng.random((users, n_items)) < rng.random((users, 1))  # empty and full users included
    ratings = sparse.csr_array(held * rng.integers(1, 6, size=held.shape))
    items = rng.normal(size=(n_items, factors))
    return items, ratings, draw(st.floats(0.1, 20.0)), draw(st.floats(0.01, 10.0))


@given(problems(), st.sampled_from([1, 40, 1 << 16]))
def test_all_users_at_once_equal_one_user_at_a_time(
    problem: tuple[np.ndarray, sparse.csr_array, float, float], block: int
) -> None:
    items, ratings, alpha, regularization = problem
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_closed_form, "BLOCK", block)
        gradients = item_gradients(items, ratings, alpha=alpha, regularization=regularization)
    dense = gradients.dense(np.arange(len(gradients)))
    for user, profile in enumerate(ratings.toarray()):
        x, gradient = oracle(items, profile, alpha, regularization)
        np.testing.assert_allclose(gradients.vectors[user], x, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(dense[user], gradient, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(gradients.total(), dense.sum(axis=0), rtol=1e-6, atol=1e-8)


@given(problems())
def test_the_user_vector_is_where_the_loss_is_flat(
    problem: tuple[np.ndarray, sparse.csr_array, float, float],
) -> None:
    """Equation 2 at the closed form: V^T C (p - V x) = lambda x."""
    items, ratings, alpha, regularization = problem
    held = (ratings.toarray() > 0).astype(float)
    x = item_gradients(items, ratings, alpha=alpha, regularization=regularization).vectors
    residual = (1.0 + alpha * held) * (held - x @ items.T)
    np.testing.assert_allclose(residual @ items, regularization * x, rtol=1e-6, atol=1e-7)


def test_batches_visit_every_entry_once_and_stay_within_the_block(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_closed_form, "BLOCK", 5000)
    rng = np.random.default_rng(1)
    ratings = sparse.random_array((300, 200), density=0.1, rng=rng, format="csr")
    seen = []
    for users, positions, held in _closed_form._batches(ratings.indptr, 8):
        assert held.size * 8 <= 5000 or len(users) == 1
        seen.append(positions[held])
    np.testing.assert_array_equal(np.sort(np.concatenate(seen)), np.arange(ratings.nnz))


@pytest.mark.parametrize("factors", [5, 64])
def test_a_float32_broadcast_gives_float32_uploads_close_to_the_exact_ones(factors: int) -> None:
    """To 1e-5 of the longest vector and of the corrections' scale 1 + alpha."""
    rng = np.random.default_rng(2)
    items = rng.normal(scale=0.3, size=(150, factors)).astype(np.float32)
    ratings = sparse.csr_array((rng.random((80, 150)) < 0.3).astype(float))
    single = item_gradients(items, ratings, alpha=4.0, regularization=0.01)
    exact = item_gradients(items.astype(float), ratings, alpha=4.0, regularization=0.01)
    assert single.vectors.dtype == single.corrections.dtype == np.float32
    scale = np.linalg.norm(exact.vectors, axis=1).max()
    assert np.abs(single.vectors - exact.vectors).max() <= 1e-5 * scale
    assert np.abs(single.corrections.data - exact.corrections.data).max() <= 5e-5


@pytest.mark.parametrize(
    ("items", "remedy"),
    [(np.ones((3, 2)), "Give a larger one"), (np.full((3, 2), np.nan), "give a finite V")],
)
def test_a_singular_or_infinite_item_matrix_is_refused(items: np.ndarray, remedy: str) -> None:
    with pytest.raises(InputError, match=remedy):
        item_gradients(items, sparse.csr_array(np.eye(3)), alpha=1.0, regularization=1e-30)
