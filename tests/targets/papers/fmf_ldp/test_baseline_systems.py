"""FCF, MF-NP and random ranking, and the closed form of equations 4 and 5."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse, stats

from fedrec_auditor.targets.components import RankOneMessages
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.papers.fmf_ldp import implicit_mf as _closed_form
from fedrec_auditor.targets.papers.fmf_ldp.implicit_mf import compute_implicit_gradients
from fedrec_auditor.targets.papers.fmf_ldp.systems import Fcf, MfNp, Random
from tests.targets.papers.tables import draw_likes


def publish(system: Fcf | MfNp, data: Interactions, seed: int = 0) -> np.ndarray:
    release = system.run(data, np.random.default_rng(seed)).transcript.published_model
    return release["items"]


@pytest.mark.parametrize("system", [Fcf(rounds=2), MfNp(factors=2)], ids=lambda each: each.name)
def test_values_of_ratings_do_not_matter(system: Fcf | MfNp) -> None:
    data = draw_likes()
    other = Interactions.create(data.ratings.toarray() / 3)
    np.testing.assert_array_equal(publish(system, data), publish(system, other))


def loss(system: Fcf | MfNp, data: Interactions, items: np.ndarray) -> float:
    """Equation 1 at the user vectors that minimise it for V."""
    held = data.ratings.toarray() > 0
    x = Fcf(alpha=system.alpha, regularization=system.regularization).solve_user_vectors(
        data.ratings, items
    )
    squares = np.where(held, 1.0 + system.alpha, 1.0) * (held - x @ items.T) ** 2
    return float(squares.sum() + system.regularization * ((x**2).sum() + (items**2).sum()))


def test_server_step_is_the_negative_gradient_of_the_loss() -> None:
    """By the envelope theorem dL/dV at the best X is equation 3, checked by differences."""
    ratings, rng = draw_likes(12, 9), np.random.default_rng(3)
    system = Fcf(server_steps=1, learning_rate=1e-3, regularization=0.3, factors=3)
    items = rng.normal(size=(9, 3))
    moved = system.update_model(items, system.upload(ratings, {"items": items}, rng)) - items
    step = 1e-5
    for i, f in ((0, 0), (4, 1), (8, 2)):
        bump = np.zeros_like(items)
        bump[i, f] = step
        slope = (loss(system, ratings, items + bump) - loss(system, ratings, items - bump)) / (
            2 * step
        )
        assert moved[i, f] == pytest.approx(-system.learning_rate * slope, rel=1e-5)


def test_transcripts_hold_every_round_and_are_reproducible() -> None:
    ratings, system = draw_likes(), Fcf(rounds=3)
    run = system.run(ratings, np.random.default_rng(5))
    broadcasts = [r.broadcast for r in run.transcript.rounds] + [run.transcript.published_model]
    for number, round_ in enumerate(run.transcript.rounds):
        gradient = round_.uploads.components["gradient"]
        assert isinstance(gradient, RankOneMessages)
        again = system.upload(ratings, round_.broadcast, np.random.default_rng(9))
        np.testing.assert_array_equal(
            again.components["gradient"].to_dense(np.arange(60)), gradient.to_dense(np.arange(60))
        )
        following = broadcasts[number + 1]
        moved = system.update_model(round_.broadcast["items"], round_.uploads)
        np.testing.assert_array_equal(moved, following["items"])


def test_every_epoch_lowers_the_loss_below_what_federated_training_reaches() -> None:
    data = draw_likes()
    by_epoch = [loss(MfNp(), data, publish(MfNp(epochs=n), data)) for n in (1, 2, 5, 20)]
    assert by_epoch == sorted(by_epoch, reverse=True)
    federated = Fcf().run(data, np.random.default_rng(0)).transcript.published_model
    assert by_epoch[-1] < loss(MfNp(), data, federated["items"])


def test_last_item_vectors_minimise_for_the_last_user_vectors() -> None:
    """V solves for the user vectors X that solved for the previous V: half a step apart."""
    data, system = draw_likes(30, 12), MfNp(epochs=5, regularization=0.1, factors=3)
    before, after = (publish(MfNp(epochs=n, regularization=0.1, factors=3), data) for n in (4, 5))
    held = data.ratings.toarray() > 0
    x = np.empty((30, 3))
    for user, own in enumerate(held):
        weighted = before.T * (1.0 + own)
        x[user] = np.linalg.solve(weighted @ before + 0.1 * np.eye(3), weighted @ own)
    for item, own in enumerate(held.T):
        weighted = x.T * (1.0 + own)
        expected = np.linalg.solve(weighted @ x + 0.1 * np.eye(3), weighted @ own)
        np.testing.assert_allclose(after[item], expected, rtol=1e-4, atol=1e-6)
    assert system.score(
        system.run(data, np.random.default_rng(0)).model, data, np.arange(2)
    ).shape == (2, 12)


def test_random_scores_are_uniform_fixed_and_per_user() -> None:
    data = Interactions.create(np.eye(200))
    model = Random().run(data, np.random.default_rng(0)).model
    every = Random().score(model, data, np.arange(200))
    np.testing.assert_array_equal(Random().score(model, data, np.array([7, 3])), every[[7, 3]])
    assert stats.kstest(every.ravel(), "uniform").pvalue > 1e-6
    best = np.bincount(every.argmax(axis=1), minlength=200)
    assert best.max() < 12  # Poisson counts of mean 1 in 200 cells: missed once in a million


def test_random_scores_do_not_depend_on_interactions() -> None:
    one, two = Interactions.create(np.eye(20)), Interactions.create(1 - np.eye(20))
    scores = [
        Random().score(Random().run(d, np.random.default_rng(3)).model, d, np.arange(20))
        for d in (one, two)
    ]
    np.testing.assert_array_equal(*scores)


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
    ranges = ((0, 9), (1, 12), (1, 11))
    users, n_items, factors = (draw(st.integers(low, high)) for low, high in ranges)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    held = rng.random((users, n_items)) < rng.random((users, 1))  # with empty and full users
    ratings = sparse.csr_array(held * rng.integers(1, 6, size=held.shape))
    items = rng.normal(size=(n_items, factors))
    return items, ratings, draw(st.floats(0.1, 20.0)), draw(st.floats(0.01, 10.0))


@given(problems(), st.sampled_from([1, 40, 1 << 16]))
def test_all_users_at_once_equal_one_user_at_a_time(
    problem: tuple[np.ndarray, sparse.csr_array, float, float], block: int
) -> None:
    items, ratings, alpha, regularization = problem
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_closed_form, "MAX_NUMBERS_PER_BATCH", block)
        gradients = compute_implicit_gradients(items, ratings, alpha, regularization)
    dense = gradients.to_dense(np.arange(len(gradients)))
    for user, profile in enumerate(ratings.toarray()):
        x, gradient = oracle(items, profile, alpha, regularization)
        np.testing.assert_allclose(gradients.user_vectors[user], x, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(dense[user], gradient, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(gradients.sum_all(), dense.sum(axis=0), rtol=1e-6, atol=1e-8)


def test_batches_visit_every_entry_once_and_stay_within_the_block(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_closed_form, "MAX_NUMBERS_PER_BATCH", 5000)
    rng = np.random.default_rng(1)
    ratings = sparse.random_array((300, 200), density=0.1, rng=rng, format="csr")
    seen = []
    for users, positions, held in _closed_form._list_batches(ratings.indptr, 8):
        assert held.size * 8 <= 5000 or len(users) == 1
        seen.append(positions[held])
    np.testing.assert_array_equal(np.sort(np.concatenate(seen)), np.arange(ratings.nnz))


@pytest.mark.parametrize("factors", [5, 64])
def test_a_float32_broadcast_gives_float32_uploads_close_to_the_exact_ones(factors: int) -> None:
    """To 1e-5 of the longest vector and of the corrections' scale 1 + alpha."""
    rng = np.random.default_rng(2)
    items = rng.normal(scale=0.3, size=(150, factors)).astype(np.float32)
    ratings = sparse.csr_array((rng.random((80, 150)) < 0.3).astype(float))
    single = compute_implicit_gradients(items, ratings, alpha=4.0, regularization=0.01)
    exact = compute_implicit_gradients(items.astype(float), ratings, alpha=4.0, regularization=0.01)
    assert single.user_vectors.dtype == single.sparse_vectors.dtype == np.float32
    scale = np.linalg.norm(exact.user_vectors, axis=1).max()
    assert np.abs(single.user_vectors - exact.user_vectors).max() <= 1e-5 * scale
    assert np.abs(single.sparse_vectors.data - exact.sparse_vectors.data).max() <= 5e-5
