"""Tests of the local game, on one client's message: worst pair, features and bounds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest

import fedrec_auditor
from fedrec_auditor.accountants.statements import (
    Adjacency,
    Bound,
    Horizon,
    Scope,
    Unit,
    Vantage,
    make_local_scope,
)
from fedrec_auditor.accountants.verdict import Verdict
from fedrec_auditor.auditor.games import canary as canaries
from fedrec_auditor.auditor.games import local, reading
from fedrec_auditor.auditor.games.canary_game import GameInputs, GameSetup
from fedrec_auditor.auditor.games.canary_games import CANARY_GAMES, LOCAL_NAME
from fedrec_auditor.auditor.games.crowd_game import get_first_broadcast, run_round
from fedrec_auditor.auditor.games.round import RoundSimulator
from fedrec_auditor.auditor.judging import accounting
from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.auditor.plan.plan import Plan
from fedrec_auditor.auditor.run.audited_target import AuditedTarget
from fedrec_auditor.auditor.run.tasks import Audit, TaskResult
from fedrec_auditor.targets.components import Component, Dense, Payload, RandomizedMessages
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.federated.noise import ClippedNoise
from fedrec_auditor.targets.papers.dplcf.systems import DplcfSp
from fedrec_auditor.targets.papers.federated_mf.systems.central_systems import GdDr
from fedrec_auditor.targets.papers.federated_mf.systems.local_systems import LflLdp
from fedrec_auditor.targets.papers.fedrec_apm.systems import FedRecApm
from fedrec_auditor.targets.papers.fmf_ldp.systems import Fcf
from fedrec_auditor.targets.papers.privrec.systems import DpPrivrec
from fedrec_auditor.targets.streams import Streams
from fedrec_auditor.targets.systems.base import Target
from fedrec_auditor.targets.transcript import Uploads
from tests.auditor.games.played import DATA, POPULATION, SURE, measure

ANY_USER = make_local_scope(Unit.USER, Vantage.SERVER, Horizon.ROUND)
USER = replace(ANY_USER, adjacency=Adjacency.REPLACE)
SIZE = 400


def make_normal_noise(scale: float) -> ClippedNoise:
    return ClippedNoise(np.inf, scale, is_normal=True)


@dataclass(frozen=True, kw_only=True)
class LeakyClient(Fcf):
    """A client that sends a gradient with normal noise, and beside it the component of ``leak``."""

    rounds: int = 1
    factors: int = 2
    scale: float = 1e6
    leak: ClassVar[str] = "nothing"

    def upload(
        self, profiles: Interactions, broadcast: Any, rng: Any, *more: Any, **settings: Any
    ) -> Uploads:
        sent = super().upload(profiles, broadcast, rng, *more, **settings)
        users, gradient = sent.users, sent.components["gradient"]
        streams = Streams.spawn(rng, len(users))
        hidden = RandomizedMessages(gradient, make_normal_noise(self.scale), streams)
        plain = gradient.to_dense(np.arange(len(users)))
        is_own = (profiles.ratings.toarray() != 0)[users][:, :, None]
        noise = rng.normal(size=plain.shape)
        parts: dict[str, Component] = {"gradient": hidden}
        if self.leak == "wrong tensor":
            parts = {
                "gradient": gradient,
                "noise": RandomizedMessages(
                    Dense(0 * plain, Payload.GRADIENT), make_normal_noise(1.0), streams
                ),
            }
        elif self.leak == "zeros":
            parts["mask"] = Dense(np.where(is_own, 0.0, noise), Payload.GRADIENT)
        elif self.leak == "variance":
            parts["spread"] = Dense(noise * (1.0 + is_own), Payload.GRADIENT)
        elif self.leak == "ignores":
            parts = {"gradient": Dense(noise, Payload.GRADIENT)}
        return Uploads(users, parts)


def make_leaky_client(leak: str) -> LeakyClient:
    return type("Leaking", (LeakyClient,), {"leak": leak})()


GAME = CANARY_GAMES[LOCAL_NAME]


def make_setup(target: Target, data: Interactions = DATA) -> GameSetup:
    ground = GameInputs(target=target, interactions=data, population_shape=(8, 10), is_quick=True)
    made = next(iter(GAME.make_setups(ground, np.random.default_rng(0))))
    assert isinstance(made, GameSetup)
    return made


def get_bound(target: Target, n: int = SIZE, confidence: float = SURE, delta: float = 0.0) -> Bound:
    made = make_setup(target)
    (scope,) = made.deltas_by_scope
    played = measure(GAME, made, scope, delta, runs=n, confidence=confidence)
    return played.measured_bounds.bound


def run_local_step(name: str, settings: dict[str, Any] | None = None, **plan: Any) -> TaskResult:
    chosen = {name: settings} if settings else {}
    made = Plan(targets=(name,), settings=chosen, quick=True, population=(8, 10), runs=SIZE, **plan)
    return AuditedTarget(Audit.from_plan(made, DATA), name).run_step(LOCAL_NAME)


@pytest.mark.parametrize("leak", ["wrong tensor", "zeros", "variance"])
def test_a_planted_leak_is_found(leak: str) -> None:
    found = get_bound(make_leaky_client(leak))
    assert found.epsilon > 1.5
    if leak == "wrong tensor":
        assert found.epsilon == pytest.approx(found.largest)


@pytest.mark.parametrize("leak", ["nothing", "ignores"])
def test_a_client_without_a_leak_has_a_bound_of_0(leak: str) -> None:
    assert get_bound(make_leaky_client(leak)).epsilon == 0.0


def test_a_message_without_noise_has_the_largest_bound() -> None:
    """The bound is the largest that this number of draws can show."""
    found = get_bound(Fcf(rounds=1, factors=2))
    assert found.largest is not None
    assert found.epsilon == pytest.approx(found.largest)


def test_the_bound_of_gaussian_noise_is_near_its_epsilon() -> None:
    """The true epsilon is that of unit Gaussians at distance d; pilot runs find the direction."""
    system = LeakyClient(scale=1.0)
    rng = np.random.default_rng(0)
    broadcast = get_first_broadcast(run_round(Fcf(rounds=1, factors=2), POPULATION, rng))
    canary = list(canaries.design_extreme_canaries(USER, POPULATION))[1]
    profiles = canary.histories
    sent = Fcf(rounds=1, factors=2).upload(profiles, broadcast, rng).components["gradient"]
    first, second = sent.to_dense(np.arange(2))
    apart = float(np.linalg.norm(first - second))
    rounds = RoundSimulator.learn(system, canary, broadcast, (Vantage.SERVER,), rng)
    ours, theirs = (
        rounds(world, 4000, np.random.SeedSequence(world))["server"][:, 0] for world in (0, 1)
    )
    shift = (ours.mean() - theirs.mean()) / np.sqrt((ours.var() + theirs.var()) / 2)
    np.testing.assert_allclose(shift, apart, rtol=0.1)


def test_mean_differences_are_those_after_clipping() -> None:
    """A difference that the randomizer clips does not count."""

    clean = np.zeros((2, 4, 3))
    clean[0] = [5.0, 0.5, 0.0]
    first, second = (
        RandomizedMessages(
            Dense(each, Payload.CHANGE),
            ClippedNoise(1.0, 2.0, is_normal=True),
            Streams.spawn(np.random.default_rng(0), 4),
        )
        for each in clean
    )
    found = reading.MessageStats.learn((first, second), np.zeros(3))
    np.testing.assert_allclose(found.mean_difference, [1.0, 0.5, 0.0])


def test_the_search_finds_the_most_informative_broadcast() -> None:
    """The gradient of a rating is longest at items of 0; an honest server gets less."""
    rng = np.random.default_rng(0)
    system = LflLdp(factors=2, rounds=1)
    scope = replace(USER, adjacency=Adjacency.ADD_REMOVE)
    honest = get_first_broadcast(run_round(system, POPULATION, rng))
    unsteered, steered = (
        local.search_worst_pair(
            system, POPULATION, scope, honest, can_steer=steered, rng=np.random.default_rng(0)
        )
        for steered in (False, True)
    )
    assert unsteered is not None
    assert steered is not None
    assert unsteered.broadcast_text == ""
    assert "malicious" in steered.broadcast_text
    assert steered.n_tried_pairs > unsteered.n_tried_pairs + 2 * local.N_BROADCAST_SEARCH_STEPS
    lengths = []
    for found in (unsteered, steered):
        read = reading.learn_message_stats(system, found.canary.histories, found.broadcast, rng, 64)
        lengths.append(np.linalg.norm(read["update"].mean_difference))
    assert lengths[1] > 1.1 * lengths[0]


def test_the_server_is_honest_if_the_proof_assumes_it() -> None:
    """The claim of DP-PrivRec is not in the local model, and its clients keep state."""
    system = DpPrivrec(rounds=1, embedding=1, width=16, local_epochs=1)
    assert "malicious" not in make_setup(system).run_description
    assert "malicious" in make_setup(LflLdp(factors=2)).run_description


def test_a_claim_of_one_bit_is_measured_by_adding_it() -> None:
    """Replacing one bit by another changes two bits: twice the claim, which does not refute it."""
    claims = DplcfSp(epsilon=1.0).get_claims(canaries.count_population(POPULATION))
    for game in CANARY_GAMES.values():
        scopes = [s for s in game.get_deltas_by_scope(claims) if s.unit is Unit.INTERACTION]
        assert {scope.adjacency for scope in scopes} == {Adjacency.ADD_REMOVE}
    result = run_local_step("dplcf-sp")
    verdicts = {f.scope.unit: f.verdict for f in result.findings}
    assert verdicts[Unit.INTERACTION] is Verdict.CONSISTENT


def _flipped(canary: canaries.CanarySet) -> tuple[str, ...]:
    return tuple(
        name
        for name, attribute in canary.histories.attributes.items()
        if attribute.codes[0] != attribute.codes[1]
    )


def test_attributes_are_flipped_for_claims_of_an_attribute() -> None:
    scope = replace(USER, unit=Unit.ATTRIBUTE)
    several = [n for n, a in POPULATION.attributes.items() if len(a.categories) > 1]
    found = list(canaries.design_extreme_canaries(scope, POPULATION))
    assert {_flipped(each) for each in found} == {(name,) for name in several}
    assert several
    for each in found:
        np.testing.assert_array_equal(*each.histories.ratings.toarray())
    assert "attribute" in {str(scope.unit) for scope in _get_deltas(FedRecApm())}


def _get_deltas(target: Target) -> dict[Scope, tuple[float, ...]]:
    return GAME.get_deltas_by_scope(target.get_claims(canaries.count_population(POPULATION)))


@pytest.mark.parametrize("name", ["dp-sgd-mf", "hfl-sgdmf", "vfl-sgdmf"])
def test_a_party_of_one_user_is_not_measured(name: str) -> None:
    """Such a party draws its only row in every step at any rate, unlike the audited system."""
    found = run_local_step(name)
    assert not found.measurements
    assert "parties" in found.skipped[0].reason
    target: Target = FAMILIES["targets"].load_class(name)()
    ground = GameInputs(target=target, interactions=DATA, population_shape=(8, 10), is_quick=True)
    for made in CANARY_GAMES["round"].make_setups(ground, np.random.default_rng(0)):
        assert not isinstance(made, GameSetup) or not isinstance(made.simulation, RoundSimulator)


SMALL: dict[str, dict[str, Any]] = {
    name: {"local_epochs": 1, "embedding": 1, "width": 16}
    for name in ("dp-privrec", "privrec", "nn-self")
}
REFUSED = {
    "hfl-local-sgd": "parties",
    "lfl-pretrained": "no client sends",
    "mf-np": "single messages",
    "obj-pertb": "single messages",
    "privrec-cen": "single messages",
    "random": "no client sends",
}
MEASURED = ("fcf", "fmf-ldp", "lcf-ub", "lfl-sgdmf", "lfl-ldp", "gd-dr", "fedrec", "privrec")


@pytest.mark.parametrize("name", [*MEASURED, *REFUSED])
def test_every_target_has_a_row_or_a_reason(name: str) -> None:
    result = run_local_step(name, SMALL.get(name))
    assert not result.errors
    if name in REFUSED:
        assert not result.measurements
        assert REFUSED[name] in result.skipped[0].reason
        assert result.skipped[0].attack == LOCAL_NAME
    else:
        assert result.measurements
        assert not result.skipped
        for row in result.measurements:
            assert row.bound.scope.vantage is Vantage.SERVER
            assert row.bound.scope.horizon in (Horizon.REPORT, Horizon.ROUND)
        assert not {f.verdict for f in result.findings} & {Verdict.VIOLATED, Verdict.UNSOUND}


def test_a_bound_outside_the_model_of_a_paper_has_no_verdict() -> None:
    found = run_local_step("f-dpmf")
    assert {row.bound.scope.unit for row in found.measurements} == {Unit.INTERACTION}
    assert not found.findings


def test_every_audit_runs_the_local_game() -> None:
    """Naming attacks selects among attacks, and does not switch off the game."""
    for attacks in (None, (), ("interaction-reconstruction",)):
        audit = Audit.from_plan(Plan(targets=("fcf",), attacks=attacks), DATA)
        assert LOCAL_NAME in {task.step for task in audit.list_tasks()}
        assert not any(task.uses_all_workers for task in audit.list_tasks())
    shared = Audit.from_plan(Plan(targets=("fcf", "fmf-ldp")), DATA)
    bounds = sum(GAME.count_bounds(target) for target in shared.targets.values())
    assert shared.confidence == pytest.approx(1 - 0.05 / bounds)


def test_no_local_bound_is_above_the_proof() -> None:
    for target in (LflLdp(factors=2), DplcfSp(epsilon=1.0), GdDr(factors=2, rows=3, epsilon=1.0)):
        made = make_setup(target)
        (scope,), (deltas,) = made.deltas_by_scope, made.deltas_by_scope.values()
        proved = accounting.find_upper_bound(
            made.target, scope, made.population, deltas[0], accounting.list_accountants()
        )
        assert proved is not None
        assert 0.0 < get_bound(target, 2000, delta=deltas[0]).epsilon <= proved.epsilon


def test_arbitrary_pairs_of_users_may_differ_in_attributes() -> None:
    found = list(canaries.design_extreme_canaries(ANY_USER, POPULATION))
    assert any(_flipped(each) for each in found)
    gone = replace(USER, adjacency=Adjacency.ADD_REMOVE)
    assert not any(_flipped(each) for each in canaries.design_extreme_canaries(gone, POPULATION))


def make_client_setup(client: Any) -> GameSetup:
    claim = fedrec_auditor.Claim(epsilon=1.0, unit="interaction", horizon="round")
    target = fedrec_auditor.wrap_system(client, claim=claim)
    ground = GameInputs(target=target, interactions=DATA, population_shape=(8, 10), is_quick=True)
    (setting,) = GAME.make_setups(ground, np.random.default_rng(0))
    assert isinstance(setting, GameSetup)
    return setting


def flip_bits(history: Any, model: Any, rng: np.random.Generator) -> Any:
    return (history.dense() > 0) ^ (rng.random(history.n_items) < 0.2)


def test_a_bound_of_a_user_client_is_exact_from_its_code() -> None:
    setting = make_client_setup(flip_bits)
    (scope,) = setting.deltas_by_scope
    (finding,) = measure(GAME, setting, scope, runs=200, confidence=0.95).findings
    assert finding.verdict is Verdict.VIOLATED
    assert finding.measured is not None
    assert finding.measured.epsilon == pytest.approx(np.log(4.0), rel=1e-12)
    assert (finding.measured.confidence, finding.measured.scope) == (1.0, scope)
    assert finding.measured.witness is not None
    witness = finding.measured.witness
    assert {witness.input_a, witness.input_b} == set(setting.world_names)


def test_a_client_with_state_is_not_proved_and_the_reason_is_given() -> None:
    calls: list[int] = []

    def counts(history: Any, model: Any, rng: np.random.Generator) -> Any:
        calls.append(1)
        return flip_bits(history, model, rng)

    prove = make_client_setup(counts).trace_bound_at_delta
    assert prove is not None
    proof = prove(0.0)
    assert proof.bound is None
    assert "keeps its value between calls" in proof.check.reason
