"""Parties that train alone: what they publish, who predicts what, and what is owed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent
from scipy import sparse

from fedrec_auditor.accountants.events.leaves import RevealedSamplingDpEvent
from fedrec_auditor.accountants.statements import Adjacency, Unit
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.papers.federated_mf.systems.central_systems import DpSgdMf
from fedrec_auditor.targets.papers.federated_mf.systems.local_systems import LocalOnly
from fedrec_auditor.targets.papers.federated_mf.systems.parts.descent import Clipping, gradients
from fedrec_auditor.targets.papers.federated_mf.systems.parts.party_mf import scope_of
from fedrec_auditor.targets.papers.federated_mf.systems.parts.sgd_mf import accounted
from fedrec_auditor.targets.papers.federated_mf.systems.vertical_systems import VflSgdmf
from fedrec_auditor.targets.systems.base import Population
from tests.targets.papers.made import rated

SOME = Population(n_users=900, n_items=100)


def test_parties_publish_once_and_predict_their_own_items_with_their_own_users() -> None:
    interactions, target = rated(12, 10), LocalOnly(parties=3, rounds=2)
    told: list[tuple[int, int]] = []
    run = target.run(
        interactions, np.random.default_rng(0), lambda done, total: told.append((done, total))
    )
    (one,) = run.transcript.rounds
    assert told == [(1, 1)]
    assert one.broadcast is None
    users = one.uploads.components["users"].dense(np.arange(3))
    items = one.uploads.components["items"]
    sent = items.sent(np.arange(3))
    np.testing.assert_array_equal(sent.sum(axis=0), 1)  # every item is with one party
    assert sorted(sent.sum(axis=1)) == [3, 3, 4]
    tables = items.dense(np.arange(3))
    slow = sum(users[k] @ tables[k].T for k in range(3))
    np.testing.assert_allclose(
        target.score(run.model, interactions, np.arange(12)), slow, atol=1e-5
    )


def test_parties_do_not_hear_of_each_other() -> None:
    """With ratings of one party's items changed, the others publish the same."""
    interactions, target = rated(12, 10), LocalOnly(parties=2, rounds=2)
    before = target.run(interactions, np.random.default_rng(0)).transcript.rounds[0].uploads
    mine = before.components["items"].sent(np.arange(2))[0]
    dense = interactions.ratings.toarray()
    other = Interactions.of(np.where(mine, np.where(dense > 0, 1.0, 0.0), dense))
    after = target.run(other, np.random.default_rng(0)).transcript.rounds[0].uploads
    for name in ("users", "items"):
        one, two = (u.components[name].dense(np.arange(2)) for u in (before, after))
        np.testing.assert_array_equal(one[1], two[1])
        assert not np.array_equal(one[0], two[0])


def test_the_claim_is_the_moments_accountants_over_all_parties_for_a_user() -> None:
    one = accounted(1.8, 0.01, 1000, 1e-5)
    (rating,) = LocalOnly().scoped_claims(SOME)
    (user,) = LocalOnly(unit="user").scoped_claims(SOME)
    (central,) = DpSgdMf(unit="user").scoped_claims(SOME)
    assert rating.claim.epsilon == one == central.claim.epsilon
    assert user.claim.epsilon == pytest.approx(math.sqrt(10) * one)
    assert (rating.claim.scope.unit, user.claim.scope.unit) == (Unit.RATING, Unit.USER)


def test_what_is_owed_follows_from_the_clip() -> None:
    def seen(z: float) -> SelfComposedDpEvent:
        return SelfComposedDpEvent(RevealedSamplingDpEvent(0.01, GaussianDpEvent(z)), 1000)

    assert LocalOnly().event(scope_of("rating"), SOME) == seen(1.8)
    # a user who comes takes another one's place in the batch, which nobody else's ratings show
    user = DpSgdMf(unit="user").event(scope_of("user"), SOME)
    assert user == SelfComposedDpEvent(PoissonSampledDpEvent(0.01, GaussianDpEvent(0.9)), 1000)
    parties = LocalOnly(unit="user", as_published=False).event(scope_of("user"), SOME)
    assert parties == SelfComposedDpEvent(PoissonSampledDpEvent(0.01, GaussianDpEvent(1.8)), 10_000)
    # another value may turn a clipped gradient round
    value = LocalOnly().event(scope_of("rating", adjacency=Adjacency.REPLACE), SOME)
    assert value == seen(0.9)
    # clipped one by one, the ten ratings of a party's items add up
    whole = LocalOnly().event(scope_of("user"), SOME)
    assert whole.event.sampling_probability == 0.01
    assert whole.event.event == GaussianDpEvent(pytest.approx(0.09))


def test_a_rating_that_goes_may_turn_its_users_clipped_gradient_round() -> None:
    """Per user one rating moves the sum by almost 2 C, so twice C is what a rating is charged."""
    u, v, clip = np.full((1, 1), 1e-3), np.array([[5.0], [5.0]]), 0.1
    found = []
    for kept in ([[0.005 - 9.0, 5.005]], [[0.0, 5.005]]):  # errors 9 and -5
        table: Any = sparse.csr_array(np.array(kept))
        of_u, of_v = gradients(u, v, table, Clipping.of_gradients(clip, "user"))
        found.append(np.concatenate([of_u, of_v]).ravel())
    moved = float(np.linalg.norm(found[0] - found[1]))
    assert 1.99 * clip < moved <= 2 * clip
    z = LocalOnly().noise_multiplier
    for target in (LocalOnly(unit="user"), VflSgdmf(unit="user", tuning=0)):
        event: Any = target.event(scope_of("rating"), SOME)
        while not isinstance(event, GaussianDpEvent):
            event = event.event
        # VFL's noise is for theta = 5 ratings of a user; a trimmed rating takes one's place
        room = 1.0 if isinstance(target, LocalOnly) else target.trim
        assert event.noise_multiplier == pytest.approx(z * room / 2)
