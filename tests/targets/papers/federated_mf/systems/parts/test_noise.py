"""Horizontal systems: what crosses, that it descends, what is owed, and what one rating moves."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from dp_accounting import (
    GaussianDpEvent,
    NonPrivateDpEvent,
    PoissonSampledDpEvent,
    SampledWithoutReplacementDpEvent,
)

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.events.leaves import (
    ReplacedSamplingDpEvent,
    RevealedSamplingDpEvent,
)
from fedrec_auditor.accountants.statements import Adjacency, Horizon, Scope, Unit, Vantage
from fedrec_auditor.accountants.verdict import Verdict
from fedrec_auditor.auditor.judging.accounting import all_accountants, evaluate
from fedrec_auditor.targets.components import Randomized
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.papers.federated_mf.systems.horizontal_systems import (
    FmfHfl,
    HflSgdmf,
    HflSynsgd,
)
from fedrec_auditor.targets.papers.federated_mf.systems.parts.descent import GOLDEN, Descent, Drawn
from fedrec_auditor.targets.papers.federated_mf.systems.parts.noise import reach
from fedrec_auditor.targets.papers.federated_mf.systems.parts.party_mf import PartyMf
from fedrec_auditor.targets.papers.federated_mf.systems.parts.sgd_mf import (
    accounted,
    fit_users,
    start,
)
from fedrec_auditor.targets.systems.base import Population
from tests.targets.papers.made import stars

LARGE = Population(n_users=70_000, n_items=10_000)
ONE = 2 * 5**1.5
SYSTEMS = (FmfHfl(rounds=3), HflSgdmf(rounds=3, tuning=5), HflSynsgd(rounds=3, tuning=5))


def scope(unit: Unit = Unit.RATING, adjacency: Adjacency = Adjacency.ADD_REMOVE) -> Scope:
    return Scope(unit=unit, adjacency=adjacency, vantage=Vantage.SERVER, horizon=Horizon.TRAINING)


@pytest.mark.parametrize("target", SYSTEMS, ids=lambda t: t.name)
def test_parties_send_whole_tables_and_keep_user_embeddings(target: PartyMf) -> None:
    run = target.run(stars(), np.random.default_rng(0))
    assert run.transcript.public.parties == 10
    for one in run.transcript.rounds:
        (component,) = one.uploads.components.values()
        assert component.shape == (20, 20)
        np.testing.assert_array_equal(one.uploads.users, np.arange(10))
        assert set(one.broadcast or {}) == {"items", "first"}
    assert np.bincount(run.model.arrays["home"]).tolist() == [6] * 10


@pytest.mark.parametrize("target", SYSTEMS[:2], ids=lambda t: t.name)
def test_the_next_model_is_the_mean_of_the_parties(target: PartyMf) -> None:
    """Weighted by n_k/n: 7 users of 3 parties are 3, 2 and 2."""
    run = replace(target, parties=3).run(stars(7), np.random.default_rng(0))
    rounds, release = run.transcript.rounds, run.transcript.release
    following = [one.broadcast for one in rounds[1:]] + [release]
    for one, after in zip(rounds, following, strict=True):
        tables = one.uploads.components["items"].dense(np.arange(3))
        mean = np.tensordot([3 / 7, 2 / 7, 2 / 7], tables, 1)
        np.testing.assert_allclose(after["items"], mean, rtol=1e-5, atol=1e-6)


def test_synsgd_sends_the_noisy_sum_of_the_rows_drawn() -> None:
    """Without noise and with all rows drawn, the gradient of equation 3 by plain loops."""
    target = HflSynsgd(
        rounds=1, factors=3, parties=1, rate=1.0, noise_multiplier=0.0, tuning=0, learning_rate=1e-9
    )
    ratings = stars(5, 6)
    run = target.run(ratings, np.random.default_rng(0))
    sent = run.transcript.rounds[0].uploads.components["noisy"].dense(np.array([0]))[0]
    first = run.transcript.rounds[0].broadcast
    users, expected = run.model.arrays["users"], np.zeros((6, 3))
    for i, j in np.argwhere(ratings.ratings.toarray()):
        error = users[i] @ first["items"][j] - ratings.ratings[i, j]
        expected[j] += 2 * error * users[i]
    np.testing.assert_allclose(sent, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("unit", ["rating", "user"])
def test_synsgds_noise_is_z_times_the_papers_sensitivity(unit: str) -> None:
    """All entries of all rows of 40 messages, to 6 standard errors of the deviation."""
    target = HflSynsgd(rounds=4, noise_multiplier=50.0, unit=unit, tuning=0)
    run = target.run(stars(), np.random.default_rng(0))
    parts = [one.uploads.components["noisy"] for one in run.transcript.rounds]
    assert all(isinstance(part, Randomized) for part in parts)
    noise = np.concatenate([part.dense(np.arange(10)).ravel() for part in parts])
    expected = 50 * ONE * (10 if unit == "user" else 1)
    assert target.noise(1).sigma == pytest.approx(expected)
    assert noise.std() == pytest.approx(expected, rel=6 / math.sqrt(2 * noise.size) + 0.001)


def test_every_table_of_hfl_sgdmf_is_within_equation_6() -> None:
    run = HflSgdmf(rounds=5, tuning=5).run(stars(), np.random.default_rng(0))
    tables = [one.uploads.components["items"].dense(np.arange(10)) for one in run.transcript.rounds]
    tables += [one.broadcast["items"] for one in run.transcript.rounds if one.broadcast]
    tables += [run.model.arrays["users"], run.model.arrays["items"]]
    for table in tables:
        assert (table >= 0).all()
        assert np.square(table).sum(axis=-1).max() <= 5.0 * (1 + 1e-5)


def test_local_noise_of_hfl_sgdmf_is_z_times_the_papers_sensitivity() -> None:
    """One small step of a party without ratings, away from the border of equation 6."""
    idle = Interactions.of(np.zeros((50, 30)))
    target = HflSgdmf(local_steps=1, learning_rate=1e-4, noise_multiplier=2.0)
    middle = {"items": np.full((30, 20), 0.3, np.float32)}
    sent = target.upload(idle, middle, np.random.default_rng(0)).components["items"]
    moved = sent.dense(np.arange(50)) - middle["items"]
    assert moved.std() / 1e-4 == pytest.approx(2 * ONE, rel=6 / math.sqrt(2 * moved.size) + 1e-3)


def test_one_rating_moves_all_rows_of_its_user() -> None:
    """A rating that turns the pre-trained embedding: sqrt(2 M) as far as the paper has it.

    The repaired system moves by one row, no farther than 2 R^(3/2).
    """
    items = 50
    first, then = np.zeros((items, 3), np.float32), np.zeros((items, 3), np.float32)
    first[1:, 0], first[0, 1] = 1e-4, math.sqrt(5)
    then[:, 2] = math.sqrt(5)  # across both embeddings
    without = np.full((1, items), 5.0)
    without[0, 0] = 0.0
    settings = {"factors": 3, "local_steps": 1, "noise_multiplier": 0.0, "fitting": 500}
    settings["learning_rate"] = 1e-6
    both = Interactions.of(np.concatenate([without, np.full((1, items), 5.0)]))
    for as_published in (True, False):
        target = HflSgdmf(as_published=as_published, rate=1.0, density=1.0 / items, **settings)
        sent = target.upload(both, {"items": then, "first": first}, np.random.default_rng(0))
        counts = np.array([items - 1, items]) if as_published else np.ones(2)
        tables = sent.components["items"].dense(np.arange(2)).astype(float)
        sums = (then - tables) * (counts / 1e-6)[:, None, None]
        moved = np.linalg.norm(sums[1] - sums[0])
        most = reach(target.noise(1).clipping, scope(), items, None, follows=as_published)
        if as_published:
            assert moved > 0.9 * math.sqrt(2 * (items - 1)) * ONE
            assert moved <= most == pytest.approx(math.sqrt(2 * items - 1) * ONE)
        else:
            assert most == pytest.approx(ONE)


@pytest.mark.parametrize("kind", [HflSgdmf, HflSynsgd])
def test_what_is_owed(kind: type[HflSgdmf | HflSynsgd]) -> None:
    def leaf(target: HflSgdmf | HflSynsgd, where: Scope) -> object:
        event = target.event(where, LARGE)
        assert event.count == 1000
        return event.event

    z, user = 1.7, scope(Unit.USER)
    replaced = scope(Unit.USER, Adjacency.REPLACE)
    plain = kind()
    told = leaf(plain, scope())  # of 7,000 rows of a party 70 are drawn
    assert told == RevealedSamplingDpEvent(0.01, told.event)
    assert told.event.noise_multiplier == pytest.approx(z / math.sqrt(2 * 10_000 - 1))
    if kind is HflSgdmf:
        whole = leaf(plain, user)
        assert isinstance(whole, PoissonSampledDpEvent)
        assert whole.event.noise_multiplier == pytest.approx(z / 100 / GOLDEN)
    mended = kind(as_published=False)
    sampled = leaf(mended, scope())
    assert isinstance(sampled, PoissonSampledDpEvent)
    assert sampled.sampling_probability == 0.01
    assert sampled.event.noise_multiplier == pytest.approx(z)
    assert leaf(mended, user).noise_multiplier == pytest.approx(z / 100)
    trimmed = kind(unit="user")
    near = pytest.approx(z * math.sqrt(10) / GOLDEN)  # who comes takes another one's place
    if kind is HflSgdmf:
        assert leaf(trimmed, user) == PoissonSampledDpEvent(0.01, GaussianDpEvent(near))
        drawn = SampledWithoutReplacementDpEvent(7000, 70, GaussianDpEvent(near))
        assert leaf(trimmed, replaced) == drawn
    else:  # user embeddings remember who was drawn: of 70 rows each may be another one
        assert leaf(trimmed, user) == GaussianDpEvent(pytest.approx(near.expected / 70))
        assert leaf(trimmed, replaced) == RevealedSamplingDpEvent(0.01, GaussianDpEvent(near))
    uneven = replace(trimmed, rate=1.5 / 7000)  # with a user fewer, a row fewer is drawn
    assert isinstance(leaf(uneven, user), GaussianDpEvent)
    mended = kind(unit="user", as_published=False)
    assert isinstance(leaf(mended, user), PoissonSampledDpEvent)
    one = leaf(mended, user).event
    assert leaf(mended, replaced) == ReplacedSamplingDpEvent(0.01, one)
    silent = kind(noise_multiplier=0.0)
    assert isinstance(silent.event(scope(), LARGE), NonPrivateDpEvent)
    one_round = replace(scope(), horizon=Horizon.ROUND)
    assert HflSgdmf().event(one_round, LARGE).count == 10


def test_a_user_who_comes_changes_the_gradients_of_those_whose_place_it_took(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One row a step: the new user's, then the first one's; else the first one's both times."""
    table = np.array([[5.0, 1.0, 0.0], [3.0, 0.0, 4.0], [1.0, 5.0, 2.0]])
    sums = {}
    for drawn in ((0, 0), (2, 0)):
        rows = iter(drawn)

        def draw(self: Descent, ratings: Any, rng: Any, count: int, rows: Any = rows) -> Drawn:
            return Drawn.of_rows(ratings, np.zeros(1, int), np.array([next(rows)]), 1)

        monkeypatch.setattr(Descent, "draw", draw)
        target = HflSynsgd(
            rounds=2, parties=1, factors=2, noise_multiplier=0.0, learning_rate=3.0, tuning=0
        )
        party = target.parted(Interactions.of(table), None, np.random.default_rng(0))[0]
        first = np.full((3, 2), 0.5, np.float32)
        sent = [
            target.exchange.sent(target, [party], first, number).dense(np.array([0]))
            for number in (0, 1)
        ]
        sums[drawn] = sent[1]
    assert np.abs(sums[2, 0] - sums[0, 0]).max() > 0.1  # though the same row of the same user


def test_train_both_moves_user_embeddings_from_where_they_began() -> None:
    for train_both in (True, False):
        target = HflSgdmf(train_both=train_both, rounds=2, tuning=0, rate=1.0, noise_multiplier=0.0)
        rng = np.random.default_rng(0)
        first = start(rng.random((20, 20)), 5.0)
        party = target.parted(stars(), first, rng)[0]
        began = party.own.copy()
        fitted = fit_users(party.full, first, bound=5.0, steps=20)
        assert np.array_equal(began, fitted) is not train_both
        target.exchange.sent(target, [party], first, 0)
        assert np.array_equal(party.own, began) is not train_both
    claims = [
        [q.claim.epsilon for q in HflSgdmf(train_both=b).scoped_claims(LARGE)]
        for b in (False, True)
    ]
    assert claims[0] == claims[1]
    assert HflSgdmf().mechanism(scope(), LARGE) is not None
    assert HflSgdmf(train_both=True).mechanism(scope(), LARGE) is None
    event = HflSgdmf(unit="user", train_both=True).event(scope(Unit.USER), LARGE)
    assert event == HflSynsgd(unit="user").event(scope(Unit.USER), LARGE)


@pytest.mark.parametrize("unit", ["rating", "user"])
@pytest.mark.parametrize("kind", [HflSgdmf, HflSynsgd])
def test_a_rating_needs_the_repair_and_a_user_of_ten_does_not(
    kind: type[HflSgdmf | HflSynsgd], unit: str
) -> None:
    """Per user the paper's sensitivity is sqrt(theta) too large, which is more than the two that a
    fixed number of rows takes away; of one rating a user it is not. Nor is it where user embeddings
    move, as nothing is known then.
    """
    for settings, proved in (
        ({}, unit == "user" and kind is HflSgdmf),
        ({"trim": 1}, False),
        ({"as_published": False}, True),
        ({"as_published": False, "trim": 1}, True),
    ):
        target = kind(unit=unit, **settings)
        own = [c for c in target.scoped_claims(LARGE) if c.scope == c.claim.scope]
        for scoped in own:
            found = evaluate(target, scoped, LARGE, exact=(), accountants=all_accountants())
            # Proposition 3 as printed accounts for a hundredth of the steps, which is not enough
            short = not settings and scoped.claim.epsilon == own[0].claim.epsilon and len(own) > 1
            expected = Verdict.CONSISTENT if proved and not short else Verdict.UNSUBSTANTIATED
            assert found.verdict is expected


def test_proposition_3_accounts_for_a_hundredth_of_the_steps() -> None:
    printed, full, *_ = (q.claim.epsilon for q in HflSgdmf().scoped_claims(LARGE))
    assert printed == accounted(1.7, 0.01, 10, 1e-5)
    assert full == accounted(1.7, 0.01, 1000, 1e-5)
    assert printed < full / 2


def test_every_step_of_one_kind_is_shared() -> None:
    with pytest.raises(InputError, match="local_steps=2"):
        HflSynsgd(local_steps=2)


def test_a_broadcast_of_the_wrong_shape_is_refused() -> None:
    for broadcast in (None, {"items": np.ones((3, 20))}):
        with pytest.raises(InputError, match=r"\(20, 20\)"):
            FmfHfl().upload(stars(), broadcast, np.random.default_rng(0))


def test_what_fmf_hfl_reached_is_told_of_both_data_sets() -> None:
    (printed,) = FmfHfl().reported
    assert "0.8631 on MovieLens-25M; 4.23981 on LibimSeTi" in printed.note
