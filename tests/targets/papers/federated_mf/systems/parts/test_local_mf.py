"""fmf-lfl and gd-dr: what devices send, how V follows, and what is claimed."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements import Unit, Vantage
from fedrec_auditor.accountants.verdict import Verdict
from fedrec_auditor.auditor.judging.accounting import all_accountants, evaluate, exact_bounds
from fedrec_auditor.targets.components import Rows
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.papers.federated_mf.systems.central_systems import GdDr
from fedrec_auditor.targets.papers.federated_mf.systems.local_systems import FmfLfl
from fedrec_auditor.targets.papers.federated_mf.systems.parts.sgd_mf import neutral
from fedrec_auditor.targets.systems.base import Population
from tests.targets.papers.made import stars

POPULATION = Population(n_users=2000, n_items=300)


def test_a_device_moves_the_rows_it_rated_as_plain_steps_do() -> None:
    """Equation 5 with s = n and the projection, rating by rating."""
    target, ratings = FmfLfl(factors=3, local_steps=4, learning_rate=0.5), stars(4, 6)
    items = (0.2 + np.random.default_rng(0).random((6, 3))).astype(np.float32)
    sent = target.upload(
        ratings, {"items": items, "users": np.array(4)}, np.random.default_rng(0)
    ).components["items"]
    assert isinstance(sent, Rows)
    for i in range(4):
        u, own = neutral(3, 5.0), items.astype(float)
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
        np.testing.assert_allclose(sent.dense(np.array([i]))[0], own, rtol=1e-4, atol=1e-4)


def test_the_model_of_fmf_lfl_is_the_mean() -> None:
    run = FmfLfl(factors=4, rounds=3, learning_rate=1.0).run(stars(), np.random.default_rng(0))
    last = run.transcript.rounds[-1].uploads.components["items"].dense(np.arange(60)).mean(axis=0)
    np.testing.assert_allclose(run.transcript.release["items"], last, rtol=1e-4, atol=1e-5)


def test_the_mean_report_is_the_mean_of_the_projected_gradients() -> None:
    """Unbiased where nothing is cut off: 60,000 reports of one user, to 6 standard errors."""
    target = GdDr(factors=2, rows=3, rounds=1, epsilon=6.0)
    profile = Interactions.of(np.array([[0, 3.0, 1.0, 0]]))
    rng = np.random.default_rng(0)
    items, phi = rng.random((4, 2)).astype("f4"), (0.1 * rng.normal(size=(3, 4))).astype("f4")
    count = 60_000
    sent = target.upload(profile, {"items": items, "projection": phi}, rng, count)
    reports = sent.components["signs"]
    u, gradient = neutral(2, 5.0), np.zeros((4, 2))
    for j, x in ((1, 3.0), (2, 1.0)):
        gradient[j] = 2 * (u @ items[j] - x) * u
    expected = phi @ gradient
    assert np.abs(expected).max() < 1
    error = reports.magnitude / math.sqrt(count * 6)
    assert np.abs(reports.total() / count - expected).max() < 6 * error


def test_the_server_descends_along_the_reports() -> None:
    target = GdDr(rounds=3, rows=7, factors=3, learning_rate=1e-4)
    run = target.run(stars(), np.random.default_rng(1))
    glimpses, release = run.transcript.rounds, run.transcript.release
    following = [one.broadcast for one in glimpses[1:]] + [release]
    for number, (one, after) in enumerate(zip(glimpses, following, strict=True)):
        phi = one.broadcast["projection"]
        assert phi.shape == (7, 20)
        np.testing.assert_array_equal(phi, glimpses[0].broadcast["projection"])
        mean = one.uploads.components["signs"].dense(np.arange(60)).mean(axis=0)
        rate = 1e-4 * (1 - 0.48 * min(1, number / 2.4))
        moved = np.maximum(one.broadcast["items"] - rate * phi.T @ mean, 0)
        norm = np.sqrt(np.square(moved).sum(axis=1, keepdims=True) / 5)
        np.testing.assert_allclose(moved / np.maximum(norm, 1), after["items"], atol=1e-5)


def test_gd_drs_local_claim_is_exact_and_the_shuffle_amplifies_it() -> None:
    target = GdDr()
    local, shuffled = (
        evaluate(
            target,
            scoped,
            POPULATION,
            exact=exact_bounds(target, POPULATION),
            accountants=all_accountants(),
        )
        for scoped in target.scoped_claims(POPULATION)
    )
    assert (local.scope.unit, local.scope.vantage) == (Unit.USER, Vantage.SERVER)
    assert local.verdict is Verdict.CONSISTENT
    assert local.measured.epsilon == pytest.approx(10.0)
    assert shuffled.scope.vantage is Vantage.SHUFFLED
    assert shuffled.accounted.epsilon < 1.0


def test_the_designed_pairs_worlds_reach_both_corners() -> None:
    for bound in (0.1, 5.0, 100.0):
        (pair,) = GdDr(bound=bound, epsilon=200.0).designed_pairs()
        sent = pair.target.upload(pair.profiles, pair.broadcast, np.random.default_rng(0), 50)
        signs = sent.components["signs"]
        assert signs.positive[:, 0].tolist() == [True] * 50 + [False] * 50


@pytest.mark.parametrize("epsilon", [1e-9, 1e4])
def test_an_epsilon_that_leaves_a_report_no_rate_is_refused(epsilon: float) -> None:
    with pytest.raises(InputError, match=f"epsilon={epsilon!r} for rounds=10"):
        GdDr(epsilon=epsilon)


def test_a_broadcast_without_its_projection_is_refused() -> None:
    with pytest.raises(InputError, match=r'"projection" of shape \(50, 20\)'):
        GdDr(factors=2).upload(stars(), {"items": np.ones((20, 2))}, np.random.default_rng(0))
