"""Local steps against a rating-by-rating oracle; noise on every entry; true sensitivities."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse, stats

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.systems.federated_mf.parts.descent import (
    Clipping,
    Descent,
    EmbeddingClipping,
    ErrorClipping,
    GradientClipping,
)
from fedrec_auditor.targets.systems.federated_mf.parts.party_randomness import PartyRandomness
from fedrec_auditor.targets.systems.federated_mf.parts.sgd_mf import RatingBatch, rate_at

SEEDS = st.integers(0, 2**32 - 1)
N, OWNED = 5, np.array([0, 4, 7])  # two parties with four and three items


def randomness(seed: int) -> PartyRandomness:
    return PartyRandomness(tuple(np.random.default_rng((seed, k)) for k in range(2)), N, OWNED)


def stacked(rng: np.random.Generator) -> tuple[np.ndarray, sparse.csr_array]:
    """The whole table, and the parties' blocks one below the other."""
    whole = (rng.random((N, 7)) < 0.6) * rng.integers(1, 6, (N, 7)).astype(np.float32)
    tall = np.zeros((2 * N, 7), dtype=np.float32)
    tall[:N, :4], tall[N:, 4:] = whole[:, :4], whole[:, 4:]
    made: Any = sparse.csr_array
    return whole, made(tall)


@pytest.mark.parametrize(
    "clipping",
    [Clipping(), EmbeddingClipping(5.0), ErrorClipping(0.7), GradientClipping(2.0, "rating")],
)
@pytest.mark.parametrize("joint", [True, False])
@settings(max_examples=15)
@given(SEEDS)
def test_steps_are_those_of_equation_4_and_7(clipping: Clipping, joint: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    whole, ratings = stacked(rng)
    u, v = rng.random((2 * N, 3)), rng.random((7, 3))
    step_scale, weight = np.array([0.02, 0.05]), np.diff(OWNED) / 7
    descent = Descent(clipping=clipping, learning_rate=0.5, rate=1.0, steps=4)
    got_u, got_v = descent.train(
        u,
        v,
        ratings,
        randomness(seed),
        user_scale=np.repeat(step_scale, N)[:, None],
        item_scale=np.repeat(step_scale * weight, np.diff(OWNED))[:, None],
        count=3,
        joint=joint,
    )
    for k in range(2):
        own_u, own_v = u[k * N : (k + 1) * N].copy(), v[OWNED[k] : OWNED[k + 1]].copy()
        x = whole[:, OWNED[k] : OWNED[k + 1]]
        for step in range(3):
            size = rate_at(step, 4, 0.5) * step_scale[k]
            g_u, g_v = np.zeros_like(own_u), np.zeros_like(own_v)
            for i, j in zip(*np.nonzero(x), strict=True):
                error = own_u[i] @ own_v[j] - x[i, j]
                if isinstance(clipping, ErrorClipping):
                    error = max(-0.7, min(0.7, error))
                one = 2 * error * np.concatenate([own_v[j], own_u[i]])
                if isinstance(clipping, GradientClipping):
                    one = one * min(1.0, 2.0 / max(float(np.linalg.norm(one)), 1e-300))
                g_u[i] += one[:3]
                g_v[j] += one[3:]
            own_v = np.asarray(clipping.project(own_v - size * weight[k] * g_v), dtype=float)
            if joint:
                own_u = np.asarray(clipping.project(own_u - size * g_u), dtype=float)
        np.testing.assert_allclose(got_v[OWNED[k] : OWNED[k + 1]], own_v, atol=1e-5)
        np.testing.assert_allclose(got_u[k * N : (k + 1) * N], own_u, atol=1e-5)


@pytest.mark.parametrize("langevin", [False, True])
def test_noise_of_the_stated_size_is_on_every_entry_rated_or_not(langevin: bool) -> None:
    ratings: Any = sparse.csr_array(np.zeros((2000, 500), dtype=np.float32))
    alone = PartyRandomness((np.random.default_rng(3),), 2000, np.array([0, 500]))
    descent = Descent(
        clipping=Clipping(),
        learning_rate=0.5,
        rate=0.2,
        steps=1,
        sigma=0.1 if langevin else 3.0,
        langevin=langevin,
    )
    u, v = descent.train(
        np.zeros((2000, 10), dtype=np.float32),
        np.zeros((500, 10), dtype=np.float32),
        ratings,
        alone,
        user_scale=np.full((2000, 1), 0.1),
        item_scale=np.full((500, 1), 0.2),
        count=1,
    )
    for moved, step in ((u, 0.05), (v, 0.1)):
        # Langevin: a step h on the batch's sum is h rate on the whole's, with noise N(0, h rate)
        sigma = math.sqrt(step * 0.2) if langevin else 3.0 * step
        assert (moved != 0).all()
        z = np.square(moved.astype(float) / sigma).sum()
        low, high = stats.chi2.interval(1 - 1e-9, moved.size)
        assert low < z < high


@given(SEEDS, st.integers(1, 6), st.sampled_from(["embedding", "error", "rating", "user"]))
def test_no_user_moves_the_sum_farther_than_the_sensitivity(
    seed: int, count: int, kind: str
) -> None:
    rng = np.random.default_rng(seed)
    kinds: dict[str, Clipping] = {
        "embedding": EmbeddingClipping(4.0),
        "error": ErrorClipping(4.0),
        "rating": GradientClipping(2.0, "rating"),
        "user": GradientClipping(2.0, "user"),
    }
    clipping = kinds[kind]
    u = clipping.project(rng.normal(size=(1, 3)) * 5)
    v = clipping.project(rng.normal(size=(count, 3)) * 5)
    made: Any = sparse.csr_array
    batch = RatingBatch.of(made(rng.uniform(0.1, 4.0, (1, count))), np.array([0]))
    of_u, of_v = batch.gradients(clipping.errors(batch, batch.errors(u, v), u, v), u, v)
    apart = math.hypot(float(np.linalg.norm(of_u)), float(np.linalg.norm(of_v)))
    assert apart <= clipping.sensitivity(count, True) * (1 + 1e-9)
    assert np.linalg.norm(of_v) <= clipping.sensitivity(count, False) * (1 + 1e-9)


@pytest.mark.parametrize("count", [1, 5])
def test_the_sensitivity_of_embedding_clipping_is_attained_and_the_papers_is_loose(
    count: int,
) -> None:
    clipping = EmbeddingClipping(4.0)
    u, v = np.array([[2.0, 0.0]]), np.tile([[0.0, 2.0]], (count, 1))
    made: Any = sparse.csr_array
    batch = RatingBatch.of(made(np.full((1, count), 4.0)), np.array([0]))
    of_u, of_v = batch.gradients(batch.errors(u, v), u, v)
    joint = math.hypot(float(np.linalg.norm(of_u)), float(np.linalg.norm(of_v)))
    assert joint == pytest.approx(clipping.sensitivity(count, True))
    assert np.linalg.norm(of_v) == pytest.approx(clipping.sensitivity(count, False))
    paper = count * 2 * math.sqrt(2) * 4.0**1.5
    assert joint == pytest.approx(paper) if count == 1 else joint < 0.8 * paper


@given(SEEDS, st.sampled_from(["embedding", "error", "rating"]))
def test_another_value_moves_the_sum_no_farther_than_is_said(seed: int, kind: str) -> None:
    rng = np.random.default_rng(seed)
    kinds: dict[str, Clipping] = {
        "embedding": EmbeddingClipping(4.0),
        "error": ErrorClipping(4.0),
        "rating": GradientClipping(2.0, "rating"),
    }
    clipping = kinds[kind]
    u = clipping.project(rng.normal(size=(1, 3)) * 2)
    v = clipping.project(rng.normal(size=(1, 3)) * 2)
    sums = []
    for value in (1e-6, 4.0):
        made: Any = sparse.csr_array
        batch = RatingBatch.of(made(np.array([[value]])), np.array([0]))
        errors = clipping.errors(batch, batch.errors(u, v), u, v)
        sums.append(np.concatenate(batch.gradients(errors, u, v), axis=None))
    apart = float(np.linalg.norm(sums[1] - sums[0]))
    assert apart <= clipping.replaced * clipping.sensitivity(1, True) * (1 + 1e-9)
    if kind == "rating" and 0.5 < u[0] @ v[0] < 3.5 and min(u[0] @ u[0], v[0] @ v[0]) > 2:
        assert apart > 1.9 * clipping.sensitivity(1, True)  # turned round


def test_a_training_that_diverges_says_so() -> None:
    whole, ratings = stacked(np.random.default_rng(0))
    assert whole.any()
    descent = Descent(clipping=Clipping(), learning_rate=1e6, rate=1.0, steps=50)
    with pytest.raises(InputError, match="smaller"), np.errstate(all="ignore"):
        descent.train(
            np.ones((2 * N, 3)),
            np.ones((7, 3)),
            ratings,
            randomness(0),
            user_scale=np.ones((2 * N, 1)),
            item_scale=np.ones((7, 1)),
            count=50,
        )
