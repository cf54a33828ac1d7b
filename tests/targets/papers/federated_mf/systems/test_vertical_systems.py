"""Vertical training: messages, claims, charges, and the repair."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, NonPrivateDpEvent, PoissonSampledDpEvent

from fedrec_auditor.accountants.events import leaves
from fedrec_auditor.accountants.statements import Adjacency, Scope, Unit, Vantage
from fedrec_auditor.auditor.judging.accounting import find_upper_bound, list_accountants
from fedrec_auditor.targets.papers.federated_mf.systems.horizontal_systems import HflSgdmf
from fedrec_auditor.targets.papers.federated_mf.systems.parts.descent import GOLDEN_RATIO
from fedrec_auditor.targets.papers.federated_mf.systems.parts.party_mf import make_claim_scope
from fedrec_auditor.targets.papers.federated_mf.systems.parts.sgd_mf import get_authors_epsilon
from fedrec_auditor.targets.papers.federated_mf.systems.vertical_systems import FmfVfl, VflSgdmf
from fedrec_auditor.targets.systems.base import Population
from tests.targets.papers.tables import make_data

DATA = make_data(30, 20, 0.4)


def test_messages_reveal_users_without_ratings_in_a_party() -> None:
    """The naive leakage of section 4; noise on every row closes it."""
    interactions = make_data(30, 20, 0.15)
    for target, is_visible in (
        (FmfVfl(rate=1.0, rounds=1), True),
        (VflSgdmf(rate=1.0, rounds=1), False),
    ):
        run = target.run(interactions, np.random.default_rng(3))
        rng = np.random.default_rng(3)
        rng.random((30, 20))  # the first user embeddings
        parties = target.make_parties(interactions, None, rng)
        known = np.stack([np.diff(party.trimmed_ratings.indptr) > 0 for party in parties])
        assert not known.all()
        (first, *_) = run.transcript.rounds
        sent = first.uploads.components["users"].to_dense(np.arange(10))
        moved = (sent != first.broadcast["users"]).any(axis=2)
        np.testing.assert_array_equal(moved, known if is_visible else True)


def test_movies_go_to_the_smallest_of_their_categories() -> None:
    genres = np.zeros((20, 4), dtype=bool)
    genres[:12, 0], genres[8:17, 1], genres[15:19, 2] = True, True, True  # 12, 9, 4 and 0 movies
    interactions = replace(DATA, genres=genres)
    target = FmfVfl(parties=3, split="category", rounds=1)
    shares = target.data_division.divide_members(target, interactions, np.random.default_rng(0))
    # movie 19 has no genre and joins the smallest
    for share, movies in zip(shares, (range(8), range(8, 15), range(15, 20)), strict=True):
        np.testing.assert_array_equal(share, list(movies))
    run = target.run(interactions, np.random.default_rng(0))
    assert run.transcript.public.n_silos == 3


@pytest.mark.parametrize("repaired", [{}, {"as_published": False}])
@pytest.mark.parametrize("unit", ["rating", "user"])
def test_an_upload_does_not_depend_on_who_else_uploads(unit: str, repaired: Any) -> None:
    interactions = make_data(6, 20, 0.4)
    for target in (
        FmfVfl(unit=unit, trim=3, rounds=2),
        VflSgdmf(unit=unit, trim=3, rate=0.3, rounds=2, **repaired),
    ):
        run = target.run(interactions, np.random.default_rng(0))
        broadcast = run.transcript.rounds[-1].broadcast
        rng, twice = np.random.default_rng(8), {"messages_per_client": 2}
        together = target.upload(interactions, broadcast, rng, **twice)
        assert together.components["users"].shape == (1, 20)
        rng, alone = np.random.default_rng(8), []
        for user in range(6):
            own = {"users": broadcast["users"][[user]]}
            one = target.upload(interactions.take_users(np.array([user])), own, rng, **twice)
            alone.append(one.components["users"].to_dense(np.arange(2)))
        whole = together.components["users"].to_dense(np.arange(12))
        np.testing.assert_allclose(whole, np.concatenate(alone), atol=1e-6)
        assert not np.array_equal(whole[0], whole[1])


LARGE = Population(n_users=70_000, n_items=10_000)


TABLE = make_data(30, 20)


def make_scope(unit: Unit, adjacency: Adjacency = Adjacency.ADD_REMOVE) -> Scope:
    return make_claim_scope(unit, adjacency=adjacency)


@pytest.mark.parametrize(
    ("target", "part"),
    [(VflSgdmf(rounds=5, learning_rate=0.5), "users"), (HflSgdmf(rounds=5, tuning=5), "items")],
)
def test_sent_and_published_embeddings_are_feasible(target: Any, part: str) -> None:
    """Feasible by equation 6."""
    run = target.run(TABLE, np.random.default_rng(0))
    tables = [one.uploads.components[part].to_dense(np.arange(10)) for one in run.transcript.rounds]
    tables += [run.model.arrays["users"], run.model.arrays["items"]]
    for table in tables:
        assert (table >= 0).all()
        assert np.square(table).sum(axis=-1).max() <= 5.0 * (1 + 1e-5)


@pytest.mark.parametrize(("target", "part"), [(VflSgdmf(), "users"), (HflSgdmf(), "items")])
def test_a_broadcast_outside_equation_6_is_projected_before_the_first_gradient(
    target: Any, part: str
) -> None:
    one, rows = TABLE.take_users(np.arange(3)), {"users": 1, "items": 20}[part]
    sent = [
        target.upload(one, {part: np.full((rows, 20), size)}, np.random.default_rng(0))
        for size in (0.5, 1e6)  # norm^2 R, or any
    ]
    np.testing.assert_array_equal(*(s.components[part].to_dense(np.arange(3)) for s in sent))


def test_the_noise_is_z_times_the_papers_sensitivity() -> None:
    for unit, joint, alone in (
        ("rating", 2 * math.sqrt(2) * 5**1.5, 2 * 5**1.5),
        ("user", 5 * 2 * math.sqrt(2) * 5**1.5, 5 * 2 * 5**1.5),
    ):
        for both, size in ((True, joint), (False, alone)):
            descent = VflSgdmf(unit=unit, noise_multiplier=3.0).make_descent(100, both)
            assert descent.user_sigma == descent.item_sigma == pytest.approx(3 * size)


def test_parties_use_at_most_theta_ratings_of_a_user() -> None:
    parties = VflSgdmf(unit="user", trim=1, parties=4).make_parties(
        TABLE, None, np.random.default_rng(0)
    )
    assert max(np.diff(party.trimmed_ratings.indptr).max() for party in parties) == 1
    assert [party.trimmed_ratings.shape for party in parties] == [(30, 5)] * 4
    found = np.zeros((30, 20))
    for party in VflSgdmf(parties=4).make_parties(TABLE, None, np.random.default_rng(0)):
        # Every rating is with one party.
        found[:, party.member_ids] += party.trimmed_ratings.toarray()
    np.testing.assert_array_equal(found, TABLE.ratings.toarray())


def test_the_claims_are_theorem_3_and_theorem_4() -> None:
    one = get_authors_epsilon(1.8, 0.01, 1100, 1e-5)
    assert one == pytest.approx(0.827, abs=0.001)
    (rating, published) = VflSgdmf().get_claims(LARGE)
    assert rating.claim.epsilon == one
    assert published.scope.vantage is Vantage.RELEASE
    user, other = VflSgdmf(unit="user").get_claims(LARGE)
    assert user.claim.epsilon == pytest.approx(math.sqrt(10) * one)
    assert (other.claim.epsilon, other.delta) == (2 * user.claim.epsilon, 2e-5)


def test_a_rating_is_charged_for_all_steps_unless_repaired() -> None:
    for as_published in (True, False):
        event = VflSgdmf(as_published=as_published).get_event(make_scope(Unit.RATING), LARGE)
        joint, tuned = event.events
        for part, steps in ((joint, 1000), (tuned, 100)):
            assert part.count == steps
            leaf = part.event
            kind = leaves.RevealedSamplingDpEvent if as_published else PoissonSampledDpEvent
            assert isinstance(leaf, kind)
            assert leaf.sampling_probability == 0.01
            assert leaf.event == GaussianDpEvent(pytest.approx(1.8))


def test_a_user_is_charged_in_all_parties_at_the_true_sensitivity() -> None:
    event = VflSgdmf(unit="user", as_published=False).get_event(make_scope(Unit.USER), LARGE)
    joint, tuned = event.events
    assert (joint.count, tuned.count) == (10_000, 1000)
    # the paper's Delta_user is theta Delta_rating; in truth items' rows do not add up
    assert joint.event.event.noise_multiplier == pytest.approx(1.8 * math.sqrt(2 * 5 / 6))
    assert tuned.event.event.noise_multiplier == pytest.approx(1.8 * math.sqrt(5))
    replacing = make_scope(Unit.USER, Adjacency.REPLACE)
    replaced = VflSgdmf(unit="user", as_published=False).get_event(replacing, LARGE)
    assert replaced.events[0].event == leaves.ReplacedSamplingDpEvent(0.01, joint.event.event)
    drawn = VflSgdmf(unit="user").get_event(replacing, LARGE).events[0].event
    assert (drawn.source_dataset_size, drawn.sample_size) == (70_000, 700)
    assert drawn.event == GaussianDpEvent(pytest.approx(1.8 * math.sqrt(2 * 5 / 6) / GOLDEN_RATIO))


def test_replaced_interactions_may_change_the_party() -> None:
    replacing = make_scope(Unit.INTERACTION, Adjacency.REPLACE)
    one, other = (VflSgdmf(tuning=0, parties=n).get_event(replacing, LARGE) for n in (1, 10))
    assert (one.count, other.count) == (1000, 2000)
    assert one.event == other.event


def test_untrimmed_users_may_have_all_items_of_a_party() -> None:
    event = VflSgdmf(tuning=0).get_event(make_scope(Unit.USER), Population(n_users=9, n_items=40))
    assert event.count == 10_000
    # one of nine rows is drawn; an added user takes another's place in it
    assert event.event.sampling_probability == 1 / 9
    assert event.event.event.noise_multiplier == pytest.approx(
        1.8 * math.sqrt(2 / (32 + 4 * GOLDEN_RATIO**2))
    )
    # by category, a party's share may be anything
    event = VflSgdmf(tuning=0, split="category").get_event(
        make_scope(Unit.USER), Population(n_users=9, n_items=40)
    )
    assert event.event.event.noise_multiplier == pytest.approx(
        1.8 * math.sqrt(2 / (3200 + 40 * GOLDEN_RATIO**2))
    )
    # of three rows a third is drawn: no better than all, as far apart
    event = VflSgdmf(tuning=0).get_event(make_scope(Unit.USER), Population(n_users=3, n_items=40))
    assert event.event.noise_multiplier == pytest.approx(1.8 * math.sqrt(2 / (16 + 4)))


def test_systems_without_noise_have_no_claim_and_no_proof() -> None:
    target = VflSgdmf(noise_multiplier=0.0)
    assert target.get_event(make_scope(Unit.RATING), LARGE) == NonPrivateDpEvent()
    assert target.get_claims(LARGE)[0].claim.epsilon == math.inf


def test_only_the_repair_is_proved() -> None:
    bounds = []
    for as_published in (True, False):
        target = VflSgdmf(as_published=as_published)
        (scoped, _) = target.get_claims(LARGE)
        bound = find_upper_bound(target, scoped.scope, LARGE, 1e-5, list_accountants())
        bounds.append((bound.epsilon, scoped.claim.epsilon))
    assert bounds[0][0] > 13 * bounds[0][1]
    assert bounds[1][0] < bounds[1][1]


def test_repaired_steps_do_not_depend_on_how_many_ratings_there_are() -> None:
    counts = np.array([1, 400])
    paper, repaired = VflSgdmf(), VflSgdmf(as_published=False, density=0.05)
    assert len(np.unique(np.asarray(paper.get_step_scale(30, 20, counts)))) == 2
    assert repaired.get_step_scale(30, 1000, counts) == pytest.approx(1 / 50)
    by_user = VflSgdmf(as_published=False, density=0.05, unit="user")
    assert by_user.get_step_scale(30, 1000, 5) == 1 / 5
