"""Games with a canary: design of canaries, features, and bounds of trainings and rounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements import (
    Adjacency,
    Bound,
    Horizon,
    Scope,
    Unit,
    Vantage,
    make_local_scope,
)
from fedrec_auditor.auditor.games import canary as canaries
from fedrec_auditor.auditor.games import crowd_game, projection
from fedrec_auditor.auditor.games.canary import N_NEW_ITEMS, CanarySet, design_extreme_canaries
from fedrec_auditor.auditor.games.canary_game import (
    CURVE_CLAIM_TEST_DELTA,
    ChunkStore,
    Features,
    GameInputs,
    GameSetup,
    MemoryChunkStore,
    RunSampler,
)
from fedrec_auditor.auditor.games.canary_games import CANARY_GAMES, LOCAL_NAME
from fedrec_auditor.auditor.games.crowd_game import (
    TrainingSimulator,
    get_first_broadcast,
    run_round,
)
from fedrec_auditor.auditor.games.one_run import OneRunSimulator
from fedrec_auditor.auditor.games.round import RoundSimulator
from fedrec_auditor.auditor.judging import accounting
from fedrec_auditor.auditor.plan.plan import Plan, amend_plan, make_plan
from fedrec_auditor.auditor.run.resources import Resources
from fedrec_auditor.auditor.run.runner import audit, run_plan
from fedrec_auditor.auditor.worlds.decision_rules import RuleTestPlan
from fedrec_auditor.auditor.worlds.estimators.lower_bound_estimators import JointBinomial
from fedrec_auditor.auditor.worlds.pilot_rules import N_MESSAGE_SCORES, LinearRule
from fedrec_auditor.reports.record.record import Record
from fedrec_auditor.targets.compute import DEFAULT_MACHINE
from fedrec_auditor.targets.papers.federated_mf.systems.local_systems import LflSgdmf
from fedrec_auditor.targets.papers.fedrec_apm.systems import FedRecGn
from fedrec_auditor.targets.papers.fmf_ldp.systems import Fcf, FmfLdp
from fedrec_auditor.targets.papers.privrec.systems import DpPrivrec
from fedrec_auditor.targets.systems.base import Population, Target
from fedrec_auditor.targets.transcript import PublicInfo, Round, Transcript, Uploads
from tests.auditor.games.played import DATA, POPULATION, SURE, measure
from tests.points import later

USER = make_local_scope(Unit.USER, Vantage.SERVER, Horizon.TRAINING)
PRESENCE = replace(USER, adjacency=Adjacency.ADD_REMOVE)


def get_bound(
    simulation: Any,
    vantage: Vantage,
    *,
    runs: int = 80,
    delta: float = 0.0,
    store: ChunkStore | None = None,
) -> Bound:
    """Bound at a confidence that no test misses by chance; stored chunks are not run again."""
    first, second = np.random.default_rng(0).spawn(2)
    worlds = RunSampler(
        simulation=simulation, chunk_key="test", chunk_size=20, store=store or MemoryChunkStore()
    ).make_worlds(
        ("in", "out"),
        USER,
        source=str(vantage),
        score_description="a rule",
        n_pilot_runs=20,
        rng=first,
        test_plan=RuleTestPlan(n_draws=2 * runs, delta=delta, alpha=0.05),
    )
    estimator = JointBinomial()
    return estimator.measure_bound(worlds, delta=delta, confidence=SURE, samples=runs, rng=second)


def trainings(target: Target, canary: CanarySet, *vantages: Vantage) -> TrainingSimulator:
    return TrainingSimulator(target=target, canary=canary, vantages=vantages)


def test_new_items_have_no_ratings_in_the_population() -> None:
    assert POPULATION.ratings.shape == (8, 10 + N_NEW_ITEMS)
    held = POPULATION.ratings.toarray() != 0
    assert not held[:, 10:].any()
    assert 0 < held.sum(axis=1).min() <= held.sum(axis=1).max() <= 5
    assert POPULATION.genres is not None
    assert len(POPULATION.genres) == POPULATION.n_items == len(set(POPULATION.items))
    columns = np.isin(DATA.items, POPULATION.items[:10])
    rows = np.isin(DATA.users, POPULATION.users)
    np.testing.assert_array_equal(
        POPULATION.ratings.toarray()[:, :10], DATA.ratings.toarray()[rows][:, columns]
    )
    assert POPULATION.timestamps is not None
    assert len(POPULATION.timestamps) == POPULATION.ratings.nnz


@pytest.mark.parametrize("unit", canaries.CANARY_UNITS)
@pytest.mark.parametrize("adjacency", [Adjacency.ADD_REMOVE, Adjacency.REPLACE])
def test_worlds_differ_only_in_the_canary_within_the_scope(
    unit: Unit, adjacency: Adjacency
) -> None:
    scope = Scope(unit=unit, adjacency=adjacency, vantage=Vantage.PEERS, horizon=Horizon.TRAINING)
    found = list(design_extreme_canaries(scope, POPULATION))
    assert found
    for canary in found:
        one, other = canary.both_data_sets
        assert one.n_users == other.n_users == POPULATION.n_users + 1
        before, after = one.ratings.toarray(), other.ratings.toarray()
        np.testing.assert_array_equal(before[:-1], after[:-1])
        np.testing.assert_array_equal(before[:-1], POPULATION.ratings.toarray())
        histories = canary.histories.ratings.toarray()
        np.testing.assert_array_equal(np.stack([before[-1], after[-1]]), histories)
        changed = np.count_nonzero(before[-1] != after[-1])
        if unit is not Unit.USER:
            swapped = adjacency is Adjacency.REPLACE and unit is Unit.INTERACTION
            assert changed == 1 + swapped
        elif adjacency is Adjacency.ADD_REMOVE:
            assert not after[-1].any()


def test_claims_are_measured_at_the_horizon_of_each_game() -> None:
    claims = FmfLdp().get_claims(Population(n_users=9, n_items=9))
    for name, game in CANARY_GAMES.items():
        found = game.get_deltas_by_scope(claims)
        assert {scope.horizon for scope in found} == {game.horizon}
        shuffled = {} if name == LOCAL_NAME else {Vantage.SHUFFLED: (1e-6,)}
        assert {scope.vantage: delta for scope, delta in found.items()} == {
            Vantage.SERVER: (0.0,),
            **shuffled,
        }
        assert all(scope.adjacency is Adjacency.REPLACE for scope in found)


def test_the_feature_of_a_move_is_that_of_its_residual() -> None:
    """Computed by hand: x = (1, -2, 2), m = (1, 0, 0), so c = 1 and r = (0, -2, 2), |r|^2/3 = 8/3.

    d = (1, 1, 0): <x, d> = -1, <m, d> = 1, |d|^2 = 2.
    """
    first, move = np.zeros((3, 1)), np.array([[1.0], [-2.0], [2.0]])
    empty = Uploads(np.arange(0), {})
    transcript = Transcript(
        public=PublicInfo(algorithm="by hand", n_users=1, n_items=3),
        rounds=(Round({"items": first}, empty),),
        published_model={"items": move},
    )
    apart = {"gradient": np.array([[1.0], [1.0], [0.0]])}
    middle = {"gradient": np.array([[1.0], [0.0], [0.0]])}
    known = [projection.ExpectedMessages(apart, middle, middle)]
    found = projection.compute_features(transcript.view(Vantage.PEERS), known, 0)
    unit = 0.375 / np.sqrt(0.75)
    np.testing.assert_allclose(found, [-0.375, 0.375, -unit, unit, -unit, unit])


def test_a_scalar_of_the_model_has_a_feature_as_tables_do() -> None:
    """Only the bias of an output moves; the same broadcast also holds the number of users."""
    first = {"bias": np.array(1.0), "table": np.zeros((2, 1)), "users": np.array(4)}
    second = {"bias": np.array(3.0), "table": np.ones((2, 1)), "users": np.array(4)}
    transcript = Transcript(
        public=PublicInfo(algorithm="by hand", n_users=4, n_items=2),
        rounds=(Round(first, Uploads(np.arange(0), {})),),
        published_model=second,
    )
    apart = {"bias": np.array(0.5), "table": np.zeros((2, 1))}
    known = [projection.ExpectedMessages(apart, {}, {})]
    found = projection.compute_features(transcript.view(Vantage.PEERS), known, 0)
    np.testing.assert_allclose(found[0], 2.0 * 0.5 / ((4 + 1 + 1) / 3))


def test_a_rule_finds_a_signal_in_a_difference_of_two_features() -> None:
    """The second feature is the large, uninformative part of the first, scaled by 1/50."""
    rng = np.random.default_rng(0)

    def draw_features(world: int, size: int) -> np.ndarray[Any, Any]:
        common = rng.normal(0, 1000.0, size)
        return np.stack([common + rng.normal(2.0 * (world == 0), 1.0, size), common / 50], axis=1)

    rule = LinearRule.fit_logistic(draw_features(0, 400), draw_features(1, 400))
    ours, theirs = rule(draw_features(0, 2000)), rule(draw_features(1, 2000))
    shift = (ours.mean() - theirs.mean()) / np.sqrt((ours.var() + theirs.var()) / 2)
    assert shift > 1.8


def test_the_shift_of_a_steered_training_is_that_of_its_rounds() -> None:
    """The shift of T rounds of Gaussian noise is sqrt(T) times the shift of one round."""
    canary = next(design_extreme_canaries(PRESENCE, POPULATION))
    system, rng = LflSgdmf(factors=2, noise_multiplier=1.0), np.random.default_rng(0)
    broadcast = get_first_broadcast(run_round(system, POPULATION, rng))
    shifts = []
    for length in (1, 9):
        rounds = RoundSimulator.learn(system, canary, broadcast, (Vantage.AGGREGATE,), rng, length)
        ours, theirs = (
            rounds(world, 400, np.random.SeedSequence(world))["aggregate"][:, 0] for world in (0, 1)
        )
        assert ours.shape == (400,)
        shifts.append((ours.mean() - theirs.mean()) / np.sqrt((ours.var() + theirs.var()) / 2))
    np.testing.assert_allclose(shifts[1] / shifts[0], 3.0, rtol=0.25)


def test_uploads_of_a_steerable_client_depend_on_data_and_broadcast() -> None:
    """In every round uploads are those of a first round at the same broadcast, but for noise."""
    system = LflSgdmf(factors=2, rounds=3, noise_multiplier=1e-9)
    assert system.has_independent_rounds
    first = POPULATION.take_users(np.array([0]))
    one = first.keep_ratings(np.arange(first.ratings.nnz) == 0)
    found = system.run(one, np.random.default_rng(0), None, DEFAULT_MACHINE).transcript
    for seen in found.rounds:
        assert seen.uploads is not None
        sent = system.upload(one, seen.broadcast, np.random.default_rng(1)).components["update"]
        there = seen.uploads.components["update"].to_dense(np.arange(1))
        np.testing.assert_allclose(there, sent.to_dense(np.arange(1)), atol=1e-4)
        assert there.any()


def test_a_steering_server_reaches_the_sensitivity_of_the_proof() -> None:
    """At a broadcast of zeros the gradient of a rating is as long as the sensitivity."""
    system, rng = LflSgdmf(factors=2), np.random.default_rng(0)
    honest = get_first_broadcast(run_round(system, POPULATION, rng))
    sent = crowd_game.make_altered_broadcasts(honest)
    scope = replace(PRESENCE, vantage=Vantage.AGGREGATE)
    found = crowd_game.find_best_canary(system, POPULATION, scope, tuple(sent.values()), rng)
    assert found is not None
    canary, number, _ = found
    assert "sets the array “items” to 0" in tuple(sent)[number]
    chosen = tuple(sent.values())[number]
    along = projection.estimate_messages(system, canary.histories, chosen, rng, 4).world_gap
    apart = np.linalg.norm(along["update"])
    np.testing.assert_allclose(apart, system.sensitivity, rtol=0.01)


def test_claims_with_a_formula_are_judged_at_the_test_delta() -> None:
    sizes = Population(n_users=9, n_items=9)
    scopes = CANARY_GAMES["training"].get_deltas_by_scope(LflSgdmf().get_claims(sizes))
    assert set(scopes.values()) == {(1e-5, CURVE_CLAIM_TEST_DELTA)}
    assert set(
        CANARY_GAMES["one-run"].get_deltas_by_scope(LflSgdmf().get_claims(sizes)).values()
    ) == {(1e-5,)}
    at = LflSgdmf().get_claims(sizes)[0].convert_to_delta(0.1)
    assert at is not None
    assert at.delta == at.claim.delta == 0.1
    np.testing.assert_allclose(at.claim.epsilon, LflSgdmf(delta=0.1).claimed_epsilon)


def test_mean_differences_of_messages_equal_noiseless_ones() -> None:
    canary = next(design_extreme_canaries(PRESENCE, POPULATION))
    rng = np.random.default_rng(0)
    quiet, loud = LflSgdmf(factors=2, noise_multiplier=1e-9), LflSgdmf(factors=2)
    broadcast = get_first_broadcast(run_round(quiet, POPULATION, rng))
    profiles = canary.histories
    along = projection.estimate_messages(loud, profiles, broadcast, rng, 4).world_gap
    sent = quiet.upload(profiles, broadcast, rng).components["update"].to_dense(np.arange(2))
    np.testing.assert_allclose(along["update"], sent[0] - sent[1], atol=1e-5)
    assert along["update"].any()
    assert not along["replacement"].any()


def test_equal_worlds_have_a_bound_of_0() -> None:
    first = next(design_extreme_canaries(PRESENCE, POPULATION))
    same = replace(first, histories=first.histories.take_users(np.array([0, 0])))
    played, store = trainings(Fcf(rounds=2, factors=2), same, *Vantage), MemoryChunkStore()
    for vantage in Vantage:
        assert get_bound(played, vantage, store=store).epsilon == 0.0, vantage


def test_an_unprotected_training_reveals_the_canary() -> None:
    canary = next(design_extreme_canaries(PRESENCE, POPULATION))
    vantages = [vantage for vantage in Vantage if vantage is not Vantage.RELEASE]
    played, store = trainings(Fcf(rounds=2, factors=2), canary, *vantages), MemoryChunkStore()
    for vantage in vantages:
        assert get_bound(played, vantage, store=store).epsilon > 1.0, vantage


@pytest.mark.calibration
def test_large_noise_hides_the_canary() -> None:
    target = LflSgdmf(factors=2, rounds=2, noise_multiplier=1e6)
    canary = next(design_extreme_canaries(PRESENCE, POPULATION))
    found = get_bound(trainings(target, canary, Vantage.AGGREGATE), Vantage.AGGREGATE, delta=1e-5)
    assert found.epsilon == 0.0


def test_features_of_shuffled_reports_ignore_their_senders() -> None:
    """Features of shuffled reports are sums: the largest message of a user is not visible."""
    canary = next(design_extreme_canaries(USER, POPULATION))
    system, rng = FmfLdp(reports=5, factors=2), np.random.default_rng(0)
    broadcast = get_first_broadcast(run_round(system, POPULATION, rng))
    vantages = (Vantage.SERVER, Vantage.SHUFFLED)
    rounds = RoundSimulator.learn(system, canary, broadcast, vantages, rng)
    features = rounds(0, 7, np.random.SeedSequence(0))
    assert features["shuffled"].shape == (7, 1 + N_MESSAGE_SCORES)
    assert not features["shuffled"][:, 1:].any()
    assert features["server"].shape[1] > 1  # the server sees the senders


def test_sums_and_largest_messages_equal_those_of_uploads() -> None:
    canary = next(design_extreme_canaries(PRESENCE, POPULATION))
    system, rng = Fcf(factors=2), np.random.default_rng(0)  # its messages are deterministic
    broadcast = get_first_broadcast(run_round(system, POPULATION, rng))
    vantages = (Vantage.SERVER, Vantage.SHUFFLED, Vantage.AGGREGATE)
    rounds = RoundSimulator.learn(system, canary, broadcast, vantages, rng)
    everybody = canary.both_data_sets[0]
    sent = system.upload(everybody, broadcast, rng).components["gradient"]
    values = projection.project_messages(sent, rounds.world_gap_by_array["gradient"])
    features = rounds(0, 2, np.random.SeedSequence(0))
    read = rounds.message_stats["gradient"]
    weights = read.mean_difference / read.message_variance
    own = sent.to_dense(np.array([len(values) - 1])).ravel() @ weights
    np.testing.assert_allclose(features["server"][:, 0], np.full(2, own))
    np.testing.assert_allclose(features["aggregate"][:, :1], np.full((2, 1), values.sum()))
    both = [[values.sum(), values.max()]] * 2
    np.testing.assert_allclose(features["shuffled"][:, :2], both)


class _CountedRuns:
    """A simulation that counts its runs."""

    votes = 0

    def __init__(self) -> None:
        self.runs = 0

    def __call__(self, world: int, size: int, seed: np.random.SeedSequence) -> Features:
        self.runs += size
        return {"it": np.random.default_rng(seed).normal(world, 1.0, (size, 2))}


def test_runs_depend_only_on_the_generator_and_are_stored() -> None:
    counted, store = _CountedRuns(), MemoryChunkStore()

    def backwards(function: Any, arguments: Sequence[tuple[Any, ...]]) -> Any:
        return (function(*each) for each in reversed(arguments))

    draws = RunSampler(simulation=counted, chunk_key="one", chunk_size=3, store=store)
    first = draws.draw_features("it", 0, 10, np.random.default_rng(5))
    again = draws.draw_features("it", 0, 10, np.random.default_rng(5))
    assert counted.runs == 10
    np.testing.assert_array_equal(first, again)
    other = RunSampler(
        simulation=_CountedRuns(), chunk_key="one", chunk_size=3, run_chunks=backwards, store=None
    )
    np.testing.assert_array_equal(other.draw_features("it", 0, 10, np.random.default_rng(5)), first)
    assert not np.array_equal(draws.draw_features("it", 1, 10, np.random.default_rng(5)), first)
    assert not np.array_equal(draws.draw_features("it", 0, 10, np.random.default_rng(6)), first)


CASES: dict[str, tuple[Target, str, Vantage]] = {
    "reports at a malicious broadcast": (FmfLdp(epsilon=0.5, reports=4), "round", Vantage.SERVER),
    "shuffled reports": (FmfLdp(epsilon=1.0, reports=3), "round", Vantage.SHUFFLED),
    "replaced noise": (LflSgdmf(factors=2, rounds=2), "round", Vantage.AGGREGATE),
    "Gaussian noise": (FedRecGn(rounds=1, epochs=1), "round", Vantage.SERVER),
    "noise of the server": (
        DpPrivrec(rounds=1, embedding=1, width=16, local_epochs=1, initial_clip=0.01),
        "round",
        Vantage.PEERS,
    ),
}


@pytest.mark.parametrize(
    "case", [later(case) if case == "noise of the server" else case for case in CASES]
)
def test_no_bound_is_above_the_proof(case: str) -> None:
    target, name, vantage = CASES[case]
    game = CANARY_GAMES[name]
    ground = GameInputs(target=target, interactions=DATA, population_shape=(4, 6))
    compared, every = 0, accounting.list_accountants()
    for setting in game.make_setups(ground, np.random.default_rng(1)):
        assert isinstance(setting, GameSetup)
        store = MemoryChunkStore()
        for scope, delta in setting.scope_deltas:
            if scope.vantage is not vantage:
                continue
            # All bounds use the same runs, those of one seed.
            out = measure(game, setting, scope, delta, 2, runs=40, store=store, accountants=every)
            target, crowd = setting.target, setting.population
            proved = accounting.find_upper_bound(target, scope, crowd, delta, every)
            assert proved is not None
            assert 0.0 <= out.measured_bounds.bound.epsilon <= proved.epsilon
            compared += 1
    assert compared


PLAN = Plan(
    targets=("lfl-sgdmf",),
    data="synthetic",
    games=("training", "round"),
    runs=40,
    population=(4, 6),
    settings={"lfl-sgdmf": {"rounds": 2, "factors": 1}},
)


ONE_RUN = PLAN.model_copy(update={"games": ("one-run",), "canaries": 60})


@pytest.fixture(scope="module")
def record() -> Record:
    """Record of an audit of the plan by two workers."""
    return run_plan(PLAN, Resources(jobs=2))


def test_every_vantage_of_a_game_has_its_findings(record: Record) -> None:
    assert not record.attacks
    assert not record.utility
    games = [finding for finding in record.findings if " game simulates " in finding.note]
    assert {finding.scope.vantage for finding in games} >= {Vantage.AGGREGATE, Vantage.PEERS}
    assert all("40 runs with each input" in finding.note for finding in games)


@pytest.mark.parametrize(
    ("kind", "plan", "stop"), [(TrainingSimulator, PLAN, 5), (OneRunSimulator, ONE_RUN, 1)]
)
def test_an_interrupted_audit_resumes_to_the_same_record(
    record: Record,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: type[TrainingSimulator] | type[OneRunSimulator],
    plan: Plan,
    stop: int,
) -> None:
    """The record equals that of two workers, and no part of the simulation is run twice."""
    whole = record if plan is PLAN else run_plan(plan, Resources(jobs=2))
    made, runs = kind.__call__, list[str]()

    def counted(self: Any, world: int, size: int, seed: np.random.SeedSequence) -> Features:
        if len(runs) == stop:
            raise KeyboardInterrupt
        runs.append(f"{world} {seed}")
        return made(self, world, size, seed)

    monkeypatch.setattr(kind, "__call__", counted)
    with pytest.raises(KeyboardInterrupt):
        run_plan(plan, Resources(jobs=1), out=tmp_path)
    stop = -1
    resumed = run_plan(plan, Resources(jobs=1), out=tmp_path)
    assert len(set(runs)) == len(runs)
    assert resumed.findings == whole.findings
    assert resumed.measurements == whole.measurements


def test_a_game_without_a_canary_for_its_claims_is_skipped() -> None:
    plan = {"games": ("training",), "attacks": (), "runs": 40, "population": (4, 6)}
    record = audit("hfl-local-sgd", data="synthetic", jobs=1, **plan)
    assert [row.attack for row in record.skipped] == ["training"]
    assert not record.errors


def test_broadcasts_with_a_row_per_user_work_in_games() -> None:
    record = audit(
        "vfl-sgdmf",
        data="synthetic",
        games=("training", "round"),
        attacks=(),
        runs=40,
        population=(4, 6),
        settings={"vfl-sgdmf": {"rounds": 1}},
        jobs=1,
    )
    assert not record.errors
    for game in ("training", "round"):
        assert any(f"{game} game" in finding.game for finding in record.findings)


@pytest.mark.parametrize("text", ["24", "x3", "24x", "24x3.5", "axb", "-1x3"])
def test_a_population_is_two_numbers(text: str) -> None:
    assert amend_plan(None, {"population": "24x32"}).population == (24, 32)
    with pytest.raises(InputError, match="USERSxITEMS"):
        amend_plan(None, {"population": text})


@pytest.mark.parametrize(
    "wrong", [{"games": ("one",)}, {"runs": 39}, {"population": (1, 32)}, {"population": (24,)}]
)
def test_wrong_settings_of_games_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=next(iter(wrong))):
        make_plan({"targets": ("fcf",), **wrong})


@pytest.mark.calibration
def test_bounds_by_an_attack_are_below_the_proof() -> None:
    """The adversary guesses by an attack: bits at epsilon 1, plaintext bits, and no uploads."""
    record = audit(
        ["dplcf-sp", "lcf-ub", "mf-np"],
        data="synthetic",
        games=("round",),
        by="interaction-membership",
        runs=150,
        population=(6, 8),
        jobs=1,
    )
    findings = [row for row in record.findings if "round game" in row.game]
    played = {(row.target, str(row.scope.unit)): row for row in findings}
    bit = played["dplcf-sp", "interaction"]
    assert bit.measured is not None
    assert bit.accounted is not None
    assert 0.3 < bit.measured.epsilon <= bit.accounted.epsilon == 1.0
    assert "the score of an attack" in bit.note
    read = played["lcf-ub", "user"]
    assert read.measured is not None
    assert read.measured.epsilon == pytest.approx(read.measured.largest)
    (why,) = [row.reason for row in record.skipped if row.target == "mf-np"]
    assert why


def test_attacks_without_scores_of_pairs_are_refused_in_games() -> None:
    with pytest.raises(InputError, match="by='linkage'"):
        audit(["fcf"], data="synthetic", games=("round",), by="linkage", jobs=1)
