"""Central systems and plain federated ones: noise, minimiser, messages and claims."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from dp_accounting import NonPrivateDpEvent, SelfComposedDpEvent
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse, stats

from fedrec_auditor.accountants.events.leaves import PureDpEvent
from fedrec_auditor.accountants.methods.accounting_methods import Pld
from fedrec_auditor.accountants.statements import Adjacency, Unit, Vantage
from fedrec_auditor.accountants.verdict import Verdict
from fedrec_auditor.auditor.judging.accounting import find_upper_bound, list_accountants
from fedrec_auditor.targets.components import SparseRows
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.papers.federated_mf.systems.central_systems import (
    DpSgld,
    GdDr,
    ObjPertb,
    _solve_least_squares,
)
from fedrec_auditor.targets.papers.federated_mf.systems.local_systems import FmfLfl
from fedrec_auditor.targets.papers.federated_mf.systems.parts.party_mf import make_claim_scope
from fedrec_auditor.targets.papers.federated_mf.systems.parts.sgd_mf import (
    get_authors_epsilon,
    make_initial_user,
)
from fedrec_auditor.targets.systems.base import Population
from tests.targets.papers.tables import draw_stars, judge, make_data

SOME = Population(n_users=6000, n_items=1000)


def test_the_noise_follows_the_epsilon_of_advanced_composition() -> None:
    by_hand = 60 / 6000 * math.sqrt(128 * 1000)
    by_hand *= math.sqrt(math.log(5 * 1000 * 60 / 2e-5) * math.log(2 / 1e-5))
    assert DpSgld().make_noise(6000).noise_multiplier == pytest.approx(by_hand)
    assert DpSgld(epsilon=4.0).make_noise(6000).noise_multiplier == pytest.approx(by_hand / 4)
    descent = DpSgld(unit="user").make_descent(6000)
    assert descent.is_langevin
    assert (
        descent.user_sigma
        == descent.item_sigma
        == pytest.approx(by_hand * 2 * 5**1.5 * math.sqrt(110))
    )


def test_noise_exceeds_that_of_the_moments_accountant() -> None:
    """The paper's remark in section 4.3."""
    assert get_authors_epsilon(DpSgld().make_noise(6000).noise_multiplier, 0.01, 1000, 1e-5) < 0.05


@pytest.mark.parametrize("unit", ["rating", "user"])
def test_charges_with_visible_draws_are_below_the_claim(unit: str) -> None:
    target = DpSgld(unit=unit)
    (scoped,) = target.get_claims(SOME)
    bound = find_upper_bound(target, scoped.scope, SOME, 1e-5, list_accountants())
    assert scoped.claim.epsilon == 1.0
    assert 0.02 < bound.epsilon < 0.5
    # drawn in every step, the same noise would not suffice
    leaf = target.get_event(scoped.scope, SOME).event
    every = SelfComposedDpEvent(leaf.event, 1000)
    bound = Pld().bound(every, delta=1e-5, scope=scoped.scope)
    assert 1.5 < bound.epsilon < 6.0


def test_embeddings_stay_in_the_balls_and_may_be_negative() -> None:
    rng = np.random.default_rng(0)
    interactions = Interactions.create(rng.integers(0, 6, (20, 10)).astype(float))
    run = DpSgld(rounds=3, learning_rate=0.1).run(interactions, rng)
    for table in (run.model.arrays["users"], run.model.arrays["items"]):
        assert np.square(table).sum(axis=-1).max() <= 5.0 * (1 + 1e-5)
        assert (table < 0).any()


SMALL = Population(n_users=30, n_items=20)


@given(st.integers(0, 2**32 - 1))
def test_no_embedding_has_a_smaller_perturbed_objective(seed: int) -> None:
    rng = np.random.default_rng(seed)
    dense = (rng.random((5, 6)) < 0.5) * rng.uniform(1, 5, (5, 6))
    other, linear = rng.normal(size=(6, 3)), rng.normal(size=(5, 3))
    made: Any = sparse.csr_array
    found = _solve_least_squares(made(dense), other, 0.7 * np.eye(3), linear)
    for row, w in enumerate(found):
        seen = dense[row] > 0
        errors = (dense[row] - other @ w)[seen]
        gradient = -2 * errors @ other[seen] + 2 * 0.7 * w + linear[row]
        np.testing.assert_allclose(gradient, 0.0, atol=1e-9)


def get_noise(target: ObjPertb, size: int) -> np.ndarray:
    """Noise b from V in rows without ratings: v = -b/(2 lambda)."""
    empty = Interactions.create(np.zeros((1, 2)))
    sent = target.upload(empty, None, np.random.default_rng(1), messages_per_client=size)
    items = sent.components["items"].to_dense(np.arange(size))
    return -2 * target.regularization * items.astype(float)


def test_noise_has_the_density_of_the_proof() -> None:
    """|b| is a gamma variable of shape p and scale 2R/epsilon, and its direction is uniform."""
    for target, epsilon in (
        (ObjPertb(factors=3, epsilon=2.0), 2.0),
        (ObjPertb(factors=3, epsilon=2.0, unit="user", trim=4), 0.5),
    ):
        b = get_noise(target, 20_000).reshape(-1, 3)
        norm = np.linalg.norm(b, axis=1)
        law = stats.gamma(3, scale=2 * 5.0 / epsilon)
        assert stats.kstest(norm, law.cdf).pvalue > 1e-7
        # a coordinate of a uniform direction in three dimensions is uniform
        assert stats.kstest(b[:, 0] / norm, stats.uniform(-1, 2).cdf).pvalue > 1e-7


def test_a_value_moves_the_repaired_gradient_by_at_most_its_scale() -> None:
    """The noises that explain one V under two values differ by at most 2R|u| = 2R."""
    target = ObjPertb(as_published=False, factors=3, regularization=1.0)
    low, high = (
        target.run(Interactions.create(np.array([[value]])), np.random.default_rng(0)).model.arrays
        for value in (1e-6, 5.0)
    )
    np.testing.assert_array_equal(low["users"], high["users"])  # public: no value moves it
    u = low["users"][0].astype(float)
    moved = 2 * (np.outer(u, u) + np.eye(3)) @ (high["items"] - low["items"])[0]
    assert np.linalg.norm(moved) == pytest.approx(2 * 5.0, rel=1e-4)


def test_published_user_embeddings_move_with_their_ratings() -> None:
    target = ObjPertb(factors=3, regularization=1.0)
    dense = make_data(12, 10).ratings.toarray()
    other = dense.copy()
    other[0, np.flatnonzero(dense[0])[0]] = 0.5
    one, two = (
        target.run(Interactions.create(table), np.random.default_rng(0)).model.arrays["users"]
        for table in (dense, other)
    )
    assert not np.array_equal(one[0], two[0])
    assert np.linalg.norm(one, axis=1).max() <= 1 + 1e-6


def test_only_the_repair_keeps_epsilon_and_only_for_a_value() -> None:
    value = make_claim_scope("rating", Vantage.RELEASE, Adjacency.REPLACE)
    presence = make_claim_scope("rating", Vantage.RELEASE)
    assert ObjPertb().get_event(value, SMALL) == NonPrivateDpEvent()
    assert ObjPertb(as_published=False, epsilon=0.7).get_event(value, SMALL) == PureDpEvent(0.7)
    assert ObjPertb(as_published=False).get_event(presence, SMALL) == NonPrivateDpEvent()
    shared = ObjPertb(as_published=False, unit="user", trim=10).get_event(value, SMALL)
    assert shared == PureDpEvent(0.1)
    first, second = ObjPertb().get_claims(SMALL)
    assert first.scope == first.claim.scope == value
    assert second.scope == presence


POPULATION = Population(n_users=2000, n_items=300)


def test_devices_move_their_rated_rows_by_plain_steps() -> None:
    """Equation 5 with s = n and the projection, rating by rating."""
    target, ratings = FmfLfl(factors=3, local_steps=4, learning_rate=0.5), draw_stars(4, 6)
    items = (0.2 + np.random.default_rng(0).random((6, 3))).astype(np.float32)
    sent = target.upload(
        ratings, {"items": items, "users": np.array(4)}, np.random.default_rng(0)
    ).components["items"]
    assert isinstance(sent, SparseRows)
    for i in range(4):
        u, own = make_initial_user(3, 5.0), items.astype(float)
        x = ratings.ratings.toarray()[i]
        rated = np.flatnonzero(x)
        step = 0.5 / len(rated)
        for _ in range(4):
            error = 2 * (own @ u - x)
            down_u = (error[rated, None] * own[rated]).sum(axis=0)
            moved = own.copy()
            for j in rated:
                row = np.maximum(own[j] - step * error[j] * u, 0)
                moved[j] = row / max(1, math.sqrt(row @ row / 5))
            u = np.maximum(u - step / 4 * down_u, 0)
            u, own = u / max(1, math.sqrt(u @ u / 5)), moved
        np.testing.assert_allclose(sent.to_dense(np.array([i]))[0], own, rtol=1e-4, atol=1e-4)


def test_the_model_of_fmf_lfl_is_the_mean_of_its_devices() -> None:
    run = FmfLfl(factors=4, rounds=3, learning_rate=1.0).run(draw_stars(), np.random.default_rng(0))
    sent = run.transcript.rounds[-1].uploads.components["items"]
    last = sent.to_dense(np.arange(60)).mean(axis=0)
    np.testing.assert_allclose(run.transcript.published_model["items"], last, rtol=1e-4, atol=1e-5)


def test_reports_estimate_the_mean_projected_gradient() -> None:
    """Unbiased without clipping: 60,000 reports of one user, to 6 standard errors."""
    target = GdDr(factors=2, rows=3, rounds=1, epsilon=6.0)
    profile = Interactions.create(np.array([[0, 3.0, 1.0, 0]]))
    rng = np.random.default_rng(0)
    items, phi = rng.random((4, 2)).astype("f4"), (0.1 * rng.normal(size=(3, 4))).astype("f4")
    count = 60_000
    sent = target.upload(profile, {"items": items, "projection": phi}, rng, count)
    reports = sent.components["signs"]
    u, gradient = make_initial_user(2, 5.0), np.zeros((4, 2))
    for j, x in ((1, 3.0), (2, 1.0)):
        gradient[j] = 2 * (u @ items[j] - x) * u
    expected = phi @ gradient
    assert np.abs(expected).max() < 1
    error = reports.magnitude / math.sqrt(count * 6)
    assert np.abs(reports.sum_all() / count - expected).max() < 6 * error


def test_the_server_descends_along_the_reports() -> None:
    target = GdDr(rounds=3, rows=7, factors=3, learning_rate=1e-4)
    run = target.run(draw_stars(), np.random.default_rng(1))
    glimpses, release = run.transcript.rounds, run.transcript.published_model
    following = [one.broadcast for one in glimpses[1:]] + [release]
    for number, (one, after) in enumerate(zip(glimpses, following, strict=True)):
        phi = one.broadcast["projection"]
        assert phi.shape == (7, 20)
        np.testing.assert_array_equal(phi, glimpses[0].broadcast["projection"])
        mean = one.uploads.components["signs"].to_dense(np.arange(60)).mean(axis=0)
        rate = 1e-4 * (1 - 0.48 * min(1, number / 2.4))
        moved = np.maximum(one.broadcast["items"] - rate * phi.T @ mean, 0)
        norm = np.sqrt(np.square(moved).sum(axis=1, keepdims=True) / 5)
        np.testing.assert_allclose(moved / np.maximum(norm, 1), after["items"], atol=1e-5)


def test_gd_drs_local_claim_is_exact_and_the_shuffle_amplifies_it() -> None:
    local, shuffled = judge(GdDr(), POPULATION)
    assert (local.scope.unit, local.scope.vantage) == (Unit.USER, Vantage.SERVER)
    assert local.verdict is Verdict.CONSISTENT
    assert local.measured.epsilon == pytest.approx(10.0)
    assert shuffled.scope.vantage is Vantage.SHUFFLED
    assert shuffled.accounted.epsilon < 1.0


def test_the_designed_pairs_worlds_reach_both_corners() -> None:
    for bound in (0.1, 5.0, 100.0):
        (pair,) = GdDr(bound=bound, epsilon=200.0).design_pairs()
        sent = pair.target.upload(pair.profiles, pair.broadcast, np.random.default_rng(0), 50)
        signs = sent.components["signs"]
        assert signs.is_positive[:, 0].tolist() == [True] * 50 + [False] * 50
