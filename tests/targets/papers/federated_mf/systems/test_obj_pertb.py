"""Objective perturbation: the minimiser, the distribution of the noise, and what a rating moves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from dp_accounting import NonPrivateDpEvent
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse, stats

from fedrec_auditor.accountants.events.leaves import PureDpEvent
from fedrec_auditor.accountants.statements import Adjacency, Vantage
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.papers.federated_mf.systems.central_systems import (
    ObjPertb,
    _least_squares,
)
from fedrec_auditor.targets.papers.federated_mf.systems.parts.party_mf import scope_of
from fedrec_auditor.targets.systems.base import Population
from tests.targets.papers.made import low_rank, rated

SOME = Population(n_users=30, n_items=20)


@given(st.integers(0, 2**32 - 1))
def test_no_embedding_has_a_smaller_perturbed_objective(seed: int) -> None:
    rng = np.random.default_rng(seed)
    dense = (rng.random((5, 6)) < 0.5) * rng.uniform(1, 5, (5, 6))
    other, linear = rng.normal(size=(6, 3)), rng.normal(size=(5, 3))
    made: Any = sparse.csr_array
    found = _least_squares(made(dense), other, 0.7 * np.eye(3), linear)
    for row, w in enumerate(found):
        seen = dense[row] > 0
        errors = (dense[row] - other @ w)[seen]
        gradient = -2 * errors @ other[seen] + 2 * 0.7 * w + linear[row]
        np.testing.assert_allclose(gradient, 0.0, atol=1e-9)


def noise_of(target: ObjPertb, size: int) -> np.ndarray:
    """What V says of b where nobody rated: v = -b/(2 lambda)."""
    empty = Interactions.of(np.zeros((1, 2)))
    sent = target.upload(empty, None, np.random.default_rng(1), size=size)
    items = sent.components["items"].dense(np.arange(size))
    return -2 * target.regularization * items.astype(float)


def test_the_noise_has_the_density_that_the_proof_asks_for() -> None:
    """|b| is a gamma variable of shape p and scale 2R/epsilon, its direction uniform."""
    for target, epsilon in (
        (ObjPertb(factors=3, epsilon=2.0), 2.0),
        (ObjPertb(factors=3, epsilon=2.0, unit="user", trim=4), 0.5),
    ):
        b = noise_of(target, 20_000).reshape(-1, 3)
        norm = np.linalg.norm(b, axis=1)
        law = stats.gamma(3, scale=2 * 5.0 / epsilon)
        assert stats.kstest(norm, law.cdf).pvalue > 1e-7
        # a coordinate of a uniform direction in three dimensions is uniform
        assert stats.kstest(b[:, 0] / norm, stats.uniform(-1, 2).cdf).pvalue > 1e-7


def test_repaired_a_values_change_moves_the_gradient_by_its_noises_scale_at_most() -> None:
    """The noise that explains one V under two values differs by 2R|u| = 2R at most."""
    target = ObjPertb(as_published=False, factors=3, regularization=1.0)
    low, high = (
        target.run(Interactions.of(np.array([[value]])), np.random.default_rng(0)).model.arrays
        for value in (1e-6, 5.0)
    )
    np.testing.assert_array_equal(low["users"], high["users"])  # public: no value moves it
    u = low["users"][0].astype(float)
    moved = 2 * (np.outer(u, u) + np.eye(3)) @ (high["items"] - low["items"])[0]
    assert np.linalg.norm(moved) == pytest.approx(2 * 5.0, rel=1e-4)


def test_as_it_is_the_users_embedding_moves_with_its_ratings() -> None:
    target = ObjPertb(factors=3, regularization=1.0)
    dense = rated(12, 10).ratings.toarray()
    other = dense.copy()
    other[0, np.flatnonzero(dense[0])[0]] = 0.5
    one, two = (
        target.run(Interactions.of(table), np.random.default_rng(0)).model.arrays["users"]
        for table in (dense, other)
    )
    assert not np.array_equal(one[0], two[0])
    assert np.linalg.norm(one, axis=1).max() <= 1 + 1e-6


def test_only_the_repair_owes_epsilon_and_only_for_a_value() -> None:
    value = scope_of("rating", Vantage.RELEASE, Adjacency.REPLACE)
    presence = scope_of("rating", Vantage.RELEASE)
    assert ObjPertb().event(value, SOME) == NonPrivateDpEvent()
    assert ObjPertb(as_published=False, epsilon=0.7).event(value, SOME) == PureDpEvent(0.7)
    assert ObjPertb(as_published=False).event(presence, SOME) == NonPrivateDpEvent()
    shared = ObjPertb(as_published=False, unit="user", trim=10).event(value, SOME)
    assert shared == PureDpEvent(0.1)
    first, second = ObjPertb().scoped_claims(SOME)
    assert first.scope == first.claim.scope == value
    assert second.scope == presence


def test_with_little_noise_a_low_rank_table_is_found() -> None:
    truth, seen = low_rank(np.random.default_rng(0))
    interactions = Interactions.of(truth * seen)
    errors = []
    for epsilon in (1e6, 0.1):
        target = ObjPertb(epsilon=epsilon, factors=3, regularization=0.1)
        run = target.run(interactions, np.random.default_rng(1))
        guess = target.score(run.model, interactions, np.arange(200))
        errors.append(np.square(guess - truth)[~seen].mean())
    assert errors[0] < 0.5 * truth[~seen].var() < errors[1]
