"""Tests of the one-run game: its canaries, their scores, and results of a plan."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements import Adjacency, Bound, Horizon, Scope, Unit, Vantage
from fedrec_auditor.auditor.games.canary import CanarySet, choose_n_canaries, design_canaries
from fedrec_auditor.auditor.games.canary_games import ONE_RUN_GAME
from fedrec_auditor.auditor.games.one_run import HAS_FIRST_KEY, CanaryScorer, OneRunSimulator
from fedrec_auditor.auditor.plan.plan import MAX_CANARIES, MIN_CANARIES, Plan, make_plan
from fedrec_auditor.auditor.run.resources import Resources
from fedrec_auditor.auditor.run.runner import audit, run_plan
from fedrec_auditor.auditor.worlds.one_run import MIN_CANARIES as FEWEST
from fedrec_auditor.auditor.worlds.scores import OneRunScores
from fedrec_auditor.targets.compute import DEFAULT_MACHINE
from fedrec_auditor.targets.datasets.synthetic import Synthetic
from fedrec_auditor.targets.papers.federated_mf.systems.local_systems import LflSgdmf
from fedrec_auditor.targets.papers.federated_mf.systems.vertical_systems import FmfVfl
from fedrec_auditor.targets.papers.fedrec_apm.systems import FedRec
from fedrec_auditor.targets.papers.fmf_ldp.systems import Fcf, FmfLdp
from fedrec_auditor.targets.papers.privrec.systems import DpPrivrec
from fedrec_auditor.targets.systems.base import Target
from fedrec_auditor.targets.transcript import PublicInfo, RoundView, View

DATA = Synthetic(n_users=100, n_items=80, profile=10.0, tastes=3).load()


def scope_of(unit: Unit, adjacency: Adjacency, vantage: Vantage = Vantage.PEERS) -> Scope:
    return Scope(unit=unit, adjacency=adjacency, vantage=vantage, horizon=Horizon.TRAINING)


USER = scope_of(Unit.USER, Adjacency.ADD_REMOVE)


def plant(asked: Scope, count: int) -> CanarySet:
    found = design_canaries(asked, DATA, count, np.random.default_rng(0))
    assert found is not None
    return found


def get_bound(
    target: Target,
    vantage: Vantage,
    *,
    count: int,
    confidence: float,
    seed: int = 0,
    adjacency: Adjacency = Adjacency.REPLACE,
) -> Bound:
    seen = scope_of(Unit.USER, adjacency, vantage)
    run = OneRunSimulator(target=target, canaries=plant(seen, count), vantages=(vantage,))
    features = run(0, 1, np.random.SeedSequence(seed))
    scores = OneRunScores.build(features[str(vantage)], features[HAS_FIRST_KEY][:, 0] > 0.5)
    return scores.bound(confidence=confidence, scope=seen, seed=seed)


@pytest.mark.parametrize("count", [30, 300])  # own items; code words
@pytest.mark.parametrize("unit", [Unit.USER, Unit.RATING, Unit.INTERACTION])
@pytest.mark.parametrize("adjacency", [Adjacency.ADD_REMOVE, Adjacency.REPLACE])
def test_canaries_differ_by_the_unit_and_in_new_items_only(
    count: int, unit: Unit, adjacency: Adjacency
) -> None:
    found = plant(scope_of(unit, adjacency), count)
    assert len(found) == count
    assert not found.other_users.ratings[:, DATA.n_items :].nnz
    assert found.other_users.n_items <= 2 * DATA.n_items
    histories = found.histories.ratings.toarray().reshape(2, count, -1)
    assert not histories[:, :, : DATA.n_items].any()
    changed = np.count_nonzero(histories[0] != histories[1], axis=1)
    if unit is Unit.USER and adjacency is Adjacency.ADD_REMOVE:
        assert not histories[1].any()
    if unit is not Unit.USER:
        swapped = adjacency is Adjacency.REPLACE and unit is Unit.INTERACTION
        assert set(changed) == {1 + swapped}
    alike = {row.tobytes() for row in np.concatenate(histories, axis=1)}
    assert len(alike) > 0.9 * count
    if count == 30:
        assert (histories.any(axis=0).sum(axis=0) <= 1).all()


def test_a_population_has_the_history_chosen_by_each_coin() -> None:
    found = plant(USER, 5)
    coins = np.array([True, False, False, True, True])
    extended = found.make_data_set(coins)
    assert extended.n_users == DATA.n_users + 5
    assert (extended.ratings[: DATA.n_users, : DATA.n_items] != DATA.ratings).nnz == 0
    own = extended.ratings[DATA.n_users :].toarray()
    histories = found.histories.ratings.toarray()
    np.testing.assert_array_equal(own, np.where(coins[:, None], histories[:5], histories[5:]))
    assert extended.ratings.has_canonical_format
    for values in (extended.users, extended.items):
        assert (np.diff(values) > 0).all()
    assert extended.timestamps is not None
    assert len(extended.timestamps) == extended.ratings.nnz
    assert {len(each.codes) for each in extended.attributes.values()} == {extended.n_users}
    assert extended.genres is not None
    assert len(extended.genres) == extended.n_items


def test_canary_ratings_need_two_rating_values() -> None:
    alike = DATA.keep_ratings(DATA.ratings.data == DATA.ratings.data.max())
    asked = scope_of(Unit.RATING, Adjacency.REPLACE)
    assert design_canaries(asked, alike, 30, np.random.default_rng(0)) is None


@pytest.mark.parametrize("vantage", [Vantage.SERVER, Vantage.AGGREGATE, Vantage.PEERS])
@pytest.mark.parametrize("target", [Fcf(rounds=3), FedRec(rounds=2, epochs=1, share=1.0)])
def test_an_unprotected_training_reveals_canaries(target: Target, vantage: Vantage) -> None:
    found = get_bound(target, vantage, count=400, confidence=0.999)
    assert found.epsilon > 0.2
    assert found.largest is not None
    assert found.epsilon <= found.largest


def test_large_noise_hides_canaries() -> None:
    """At 95% a bound is false with probability at most 5%: 8 of 40 with probability 0.001."""
    target = LflSgdmf(factors=2, rounds=2, noise_multiplier=1e6)
    false = [
        get_bound(target, Vantage.AGGREGATE, count=60, confidence=0.95, seed=seed).epsilon > 0.0
        for seed in range(40)
    ]
    assert sum(false) < 8


def test_a_system_without_item_tables_is_measured() -> None:
    target = DpPrivrec(rounds=2, embedding=1, width=16, local_epochs=1)
    run = OneRunSimulator(
        target=target,
        canaries=plant(scope_of(Unit.USER, Adjacency.REPLACE), 30),
        vantages=(Vantage.SERVER, Vantage.PEERS, Vantage.RELEASE),
    )
    features = run(0, 1, np.random.SeedSequence(0))
    for vantage in run.vantages:
        assert features[str(vantage)].any()


def test_scores_and_coins_follow_from_the_seed() -> None:
    run = OneRunSimulator(target=Fcf(rounds=1), canaries=plant(USER, 30), vantages=(Vantage.PEERS,))
    first, again, other = (run(0, 1, np.random.SeedSequence(seed)) for seed in (1, 1, 2))
    for name in (HAS_FIRST_KEY, "peers"):
        np.testing.assert_array_equal(first[name], again[name])
        assert not np.array_equal(first[name], other[name])


PLAN = Plan(
    targets=("lfl-sgdmf",),
    data="synthetic",
    games=("one-run",),
    canaries=60,
    settings={"lfl-sgdmf": {"rounds": 2, "factors": 2}},
)


def test_every_claimed_scope_has_a_bound_and_a_verdict() -> None:
    one = run_plan(PLAN, Resources(jobs=1))
    bounds = [row.bound for row in one.measurements if row.bound.samples]
    assert len(bounds) == 4
    assert {each.scope.horizon for each in bounds} == {Horizon.TRAINING}
    assert {each.samples for each in bounds} <= {60, 120}  # twice as many for both directions
    assert {each.confidence for each in bounds} == {1 - (1 - 0.95) / 4}
    assert {each.delta for each in bounds} == {1e-5}
    judged = [row for row in one.findings if "one-run game" in row.note]
    assert {row.scope for row in judged} == {each.scope for each in bounds}
    assert all("60 canaries" in row.note for row in judged)


def test_a_game_that_cannot_refute_states_its_largest_bound() -> None:
    record = audit(
        "fmf-ldp",
        data="synthetic",
        games=("one-run",),
        canaries=30,
        settings={"fmf-ldp": {"reports": 2, "rounds": 2, "epsilon": 9.0}},
        jobs=1,
    )
    notes = [row.note for row in record.findings if "one-run game" in row.note]
    assert any("30 canaries of one training, all guessed rightly" in note for note in notes)


@pytest.mark.parametrize("count", [0, MIN_CANARIES - 1, MAX_CANARIES + 1])
def test_too_few_or_too_many_canaries_are_refused(count: int) -> None:
    with pytest.raises(InputError, match="canaries"):
        make_plan({"targets": ("fcf",), "canaries": count})
    assert MIN_CANARIES == FEWEST


def test_there_are_at_most_two_canaries_per_user_by_default() -> None:
    few = DATA.take_users(np.arange(30))
    assert choose_n_canaries(few, quick=False) == 60
    assert choose_n_canaries(DATA.take_users(np.arange(2)), quick=False) == FEWEST
    assert ONE_RUN_GAME.horizon is Horizon.TRAINING


def test_a_system_without_uploads_has_a_bound_of_0() -> None:
    record = audit("mf-np", data="synthetic", games=("one-run",), canaries=40, quick=True, jobs=1)
    assert [row.bound.epsilon for row in record.measurements] == [0.0]


@pytest.mark.parametrize("vantage", [Vantage.SERVER, Vantage.PEERS, Vantage.RELEASE])
def test_tables_with_a_row_per_user_reveal_canaries(vantage: Vantage) -> None:
    """Vertical parties send and publish embeddings of users, in which every canary has a row."""
    target, adjacency = FmfVfl(rounds=5, rate=1.0), Adjacency.ADD_REMOVE
    found = get_bound(target, vantage, count=200, confidence=0.999, adjacency=adjacency)
    assert found.epsilon > 1.0


@pytest.mark.parametrize("count", [30, 60])  # own items; code words
def test_scores_of_steps_are_those_of_a_dense_least_squares(count: int) -> None:
    """The reference solves a least squares problem on the residual of each step of whole tables."""
    canaries, rng = plant(scope_of(Unit.USER, Adjacency.REPLACE), count), np.random.default_rng(1)
    others = canaries.other_users
    models = [{"items": rng.normal(size=(others.n_items, 5))} for _ in range(3)]
    scorer = CanaryScorer.build(Fcf(), canaries, others, models[0], rng, DEFAULT_MACHINE)
    rounds = tuple(RoundView(broadcast=model) for model in models)
    public = PublicInfo(algorithm="fcf", n_users=100 + count, n_items=others.n_items)
    view = View(vantage=Vantage.PEERS, public=public, rounds=rounds)
    found = scorer.compute_scores(view, Vantage.PEERS)

    both = Fcf().upload(canaries.histories, models[0], rng).components["gradient"]
    theirs = Fcf().upload(others, models[0], rng).components["gradient"]
    dense = both.to_dense(np.arange(2 * count))
    expected = (0.5 * dense.sum(axis=0) + theirs.sum_all())[DATA.n_items :].ravel()
    own = np.zeros((count, others.n_items, 1))
    own[np.arange(count)[:, None], canaries.canary_items] = 1.0
    apart = ((dense[:count] - dense[count:]) * own)[:, DATA.n_items :].reshape(count, -1)
    lengths = np.linalg.norm(apart, axis=1)
    for column, (before, after) in zip(found.T, itertools.pairwise(models), strict=True):
        step = (after["items"] - before["items"])[DATA.n_items :].ravel()
        left = step - (step @ expected) / (expected @ expected) * expected
        ridge = 1e-3 * (lengths**2).mean() * np.eye(count)
        solved = np.linalg.solve(apart @ apart.T + ridge, apart @ left / np.sqrt((left**2).mean()))
        np.testing.assert_allclose(column, lengths * solved, rtol=2e-3, atol=1e-3)


def test_noise_sent_back_is_anticorrelated_with_noisy_messages() -> None:
    """LFL-SGDMF sends -xi + xi' unprotected, which along a direction is opposed to xi."""
    run = OneRunSimulator(
        target=LflSgdmf(factors=2, rounds=4), canaries=plant(USER, 60), vantages=(Vantage.SERVER,)
    )
    seen = run(0, 1, np.random.SeedSequence(0))["server"]
    hidden, sent_back = seen[:, :4].ravel(), seen[:, 4:].ravel()
    assert np.corrcoef(hidden, sent_back)[0, 1] < -0.3


def test_sums_of_shuffled_reports_do_not_depend_on_order() -> None:
    transcript = FmfLdp(reports=3, rounds=1).run(DATA, np.random.default_rng(0)).transcript
    shuffled = transcript.view(Vantage.SHUFFLED, np.random.default_rng(1)).rounds[0].shuffled
    sent = transcript.rounds[0].uploads.components["reports"]
    assert shuffled is not None
    # A message averages its three reports; the shuffled view has whole reports.
    np.testing.assert_allclose(shuffled["reports"].sum_all() / 3, sent.sum_all())
