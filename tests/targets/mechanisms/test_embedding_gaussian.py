"""Embedding clipping: the projection, the sensitivities, and what a bare row tells."""

from __future__ import annotations

import math

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedrec_auditor.targets.mechanisms.gaussian_mechanisms import EmbeddingGaussian, clip_embedding

R = 5.0
EMBEDDINGS = arrays(np.float64, 3, elements=st.floats(-20, 20))


def build(u: np.ndarray, v: np.ndarray, *, joint: bool = False) -> EmbeddingGaussian:
    return EmbeddingGaussian(sigma=3.0, bound=R, user=tuple(u), item=tuple(v), joint=joint)


@given(EMBEDDINGS, EMBEDDINGS)
def test_the_projection_is_feasible_and_nearest(raw: np.ndarray, other: np.ndarray) -> None:
    near, feasible = clip_embedding(raw, R), clip_embedding(other, R)
    assert (near >= 0).all()
    assert near @ near <= R * (1 + 1e-14)
    # Nearest in a convex set: no other point of it lies on the raw one's side.
    assert (raw - near) @ (feasible - near) <= 1e-9
    np.testing.assert_allclose(clip_embedding(near, R), near, rtol=1e-14)


@given(EMBEDDINGS, EMBEDDINGS, st.floats(0, R), st.booleans())
def test_adding_or_replacing_a_rating_never_beats_the_sensitivity(
    u: np.ndarray, v: np.ndarray, x: float, joint: bool
) -> None:
    assume(u.max() > 1e-9)
    step = build(u, v, joint=joint)
    centers = step.center(np.array([-1.0, x, 0.0, R]))
    apart = np.linalg.norm(centers[:, None] - centers, axis=-1)
    assert apart.max() <= step.sensitivity * (1 + 1e-12)
    assert apart.max() == pytest.approx(step.mu * step.sigma)
    assert step.sensitivity == pytest.approx(2 * (2 if joint else 1) ** 0.5 * R**1.5)


@pytest.mark.parametrize("joint", [False, True])
def test_a_rating_of_r_at_orthogonal_embeddings_attains_it(joint: bool) -> None:
    step = EmbeddingGaussian.worst(sigma=3.0, bound=R, joint=joint)
    none, rated = step.center(np.array([-1.0, R]))
    assert (none == 0).all()
    assert np.linalg.norm(rated) == pytest.approx(step.sensitivity)
    assert step.event() == GaussianDpEvent(3.0 / step.sensitivity)
    assert step.mu == pytest.approx(step.sensitivity / 3.0)


def test_so_does_a_rating_of_zero_at_equal_embeddings() -> None:
    e = np.array([math.sqrt(R), 0.0, 0.0])
    step = build(e, e, joint=True)
    assert np.linalg.norm(step.center(np.array(0.0))) == pytest.approx(step.sensitivity)


def test_the_worst_embeddings_are_no_worse_than_any_found_by_search() -> None:
    rng = np.random.default_rng(1)
    u, v = clip_embedding(rng.normal(0, 30, (2, 20_000, 2)), R)
    x = rng.uniform(0.0, R, 20_000)
    error = np.abs(x - (u * v).sum(axis=1))
    for joint, factors in ((False, u), (True, np.concatenate([u, v], axis=1))):
        found = 2 * np.linalg.norm(factors, axis=1) * error
        limit = EmbeddingGaussian.worst(sigma=1.0, bound=R, joint=joint).sensitivity
        assert 0.999 * limit < found.max() <= limit * (1 + 1e-12)


def test_the_center_is_the_derivative_of_the_squared_error() -> None:
    u, v, x, step = np.array([0.4, 1.1, 0.2]), np.array([0.9, 0.3, 0.7]), 3.0, 1e-6

    def loss(w: np.ndarray) -> float:
        return float((x - w[:3] @ w[3:]) ** 2)

    at = np.r_[u, v]
    slow = [(loss(at + step * e) - loss(at - step * e)) / (2 * step) for e in np.eye(6)]
    np.testing.assert_allclose(build(u, v, joint=True).center(np.array(x)), slow, rtol=1e-8)
    np.testing.assert_allclose(build(u, v).center(np.array(x)), slow[3:], rtol=1e-8)


def test_noise_on_touched_rows_only_tells_whether_there_is_a_rating() -> None:
    step, rng = EmbeddingGaussian.worst(sigma=30.0, bound=R), np.random.default_rng(1)
    covered = step.randomize(np.array([-1.0, 1.0]), rng, (1000, 2))
    touched = np.array([False, True])[:, None]
    bare = np.where(touched, covered, 0.0)
    guess = (bare != 0).any(axis=-1)
    assert (guess == [False, True]).all()
    assert (covered != 0).all()


def test_a_row_that_hides_the_rating_is_told_by_the_other() -> None:
    assert build(-np.ones(2), np.ones(2), joint=True).mu > 0
