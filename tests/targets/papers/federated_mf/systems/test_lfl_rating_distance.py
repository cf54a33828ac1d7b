"""How far a rating moves LFL-SGDMF's messages, against its own devices."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fedrec_auditor.accountants.statements import Adjacency, Horizon, Scope, Unit, Vantage
from fedrec_auditor.accountants.verdict import Verdict
from fedrec_auditor.auditor.judging.accounting import all_accountants, evaluate, exact_bounds
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.papers.federated_mf.systems.local_systems import LflSgdmf
from fedrec_auditor.targets.papers.federated_mf.systems.parts.sgd_mf import rating_distance
from fedrec_auditor.targets.systems.base import Population

ONE = 2 * 5**1.5
SUM = Scope(
    unit=Unit.RATING,
    adjacency=Adjacency.ADD_REMOVE,
    vantage=Vantage.AGGREGATE,
    horizon=Horizon.TRAINING,
)


def test_devices_send_messages_as_far_apart_as_that() -> None:
    """Along the direction that does not depend on which rating is drawn: a mean a world."""
    size, factors = 4000, 3
    target = LflSgdmf(factors=factors, noise_multiplier=1.0, fitting=200)
    first = np.zeros((2, factors), np.float32)
    first[0, 1], first[1, 0] = 1e-4 * math.sqrt(5), math.sqrt(5)
    sent = target.upload(
        Interactions.of(np.array([[5.0, 5.0], [5.0, 0.0]])),
        {"items": np.zeros((2, factors), np.float32), "first": first},
        np.random.default_rng(3),
        size=size,
    ).components["update"]
    messages = sent.dense(np.arange(2 * size)).astype(float).reshape(2, size, -1)
    b, a = np.eye(factors)[1], np.eye(factors)[0]
    along = np.concatenate([a / 2 - b, a / 2])
    along /= np.linalg.norm(along)
    seen = -(messages @ along)
    noise = target.sigma * math.sqrt(1 / 0.7)  # of one device, all there are
    moved = seen[0].mean() - seen[1].mean()
    error = 6 * noise * math.sqrt(2 / size)
    assert moved == pytest.approx(rating_distance(5.0, factors, 200), abs=error + 0.05 * ONE)
    assert seen[0].std() == pytest.approx(noise, rel=6 / math.sqrt(2 * size) + 0.01)


def test_a_turn_makes_the_distance_root_three_halves() -> None:
    assert rating_distance(5.0, 2, 10_000) == pytest.approx(math.sqrt(1.5) * ONE, rel=0.03)
    assert ONE < rating_distance(5.0, 20, 20) < math.sqrt(1.5) * ONE
    assert rating_distance(5.0, 1, 20) == ONE
    assert rating_distance(2.0, 2, 500) == pytest.approx(rating_distance(5.0, 2, 500) * 0.4**1.5)


@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_the_repaired_noise_does_not_save_the_promise_for_a_rating(dropout: float) -> None:
    population = Population(n_users=200, n_items=50)
    target = LflSgdmf(as_published=False, dropout=dropout)
    scoped_claims = [q for q in target.scoped_claims(population) if q.scope == SUM]
    exact = exact_bounds(target, population)
    found = evaluate(
        target, scoped_claims[0], population, exact=exact, accountants=all_accountants()
    )
    assert found.verdict is Verdict.NO_CLAIM  # Theorem 5 names no unit
    assert found.measured.epsilon > found.claim.epsilon
    one = evaluate(
        target,
        scoped_claims[0],
        Population(n_users=200, n_items=1),
        exact=exact_bounds(target, Population(n_users=200, n_items=1)),
        accountants=all_accountants(),
    )
    assert one.verdict is Verdict.UNSUBSTANTIATED


def test_two_gradients_at_one_v_are_at_most_as_far_apart_as_is_charged() -> None:
    """Any two messages, by random and extreme embeddings; an honest z is divided by the ratio."""
    population, bound, rng = Population(n_users=200, n_items=50), 5.0, np.random.default_rng(0)
    target = LflSgdmf(as_published=False)
    alone, changed = (
        target.event(
            Scope(
                unit=unit,
                adjacency=Adjacency.ADD_REMOVE,
                vantage=Vantage.AGGREGATE,
                horizon=Horizon.ROUND,
            ),
            population,
        ).event.noise_multiplier
        for unit in (Unit.USER, Unit.RATING)
    )
    charged = alone / changed
    assert charged == pytest.approx((1 + math.sqrt(5)) / 2)
    u, v = rng.random((2, 2, 200_000, 2)) ** 0.3
    v = np.stack([v[0], v[0]])  # one item, the same V for both devices
    angles = rng.random(200_000) * math.pi / 2
    u[1] = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    u, v = (
        math.sqrt(bound) * part / np.maximum(np.linalg.norm(part, axis=2), 1.0)[..., None]
        for part in (u, v)
    )
    ratings = bound * rng.integers(0, 2, (2, 200_000))
    gradients = 2 * (ratings - (u * v).sum(axis=2))[..., None] * u
    assert np.linalg.norm(gradients, axis=2).max() <= ONE * (1 + 1e-9)
    farthest = np.linalg.norm(gradients[0] - gradients[1], axis=1).max() / ONE
    assert 1.5 < farthest <= charged
    across = math.sqrt(2.0)  # gradients of two items stand in two rows
    assert across < charged
