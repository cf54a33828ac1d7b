"""Tests of claims of a user's system: they are measured only on worlds within their scope."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fedrec_auditor import Claim, audit_system, wrap_system
from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.losses.divergences import find_gaussian_epsilon
from fedrec_auditor.accountants.statements import Horizon, Unit, Vantage, make_local_scope
from fedrec_auditor.auditor.games.canary_game import GameInputs, GameSetup, RemovalEstimator, Skip
from fedrec_auditor.auditor.games.canary_games import CANARY_GAMES
from fedrec_auditor.auditor.games.crowd_game import TrainingSimulator
from fedrec_auditor.auditor.games.round import RoundSimulator
from fedrec_auditor.auditor.plan.sources import read_data_object
from fedrec_auditor.auditor.worlds.estimators.lower_bound_estimators import JointBinomial
from fedrec_auditor.auditor.worlds.worlds import Worlds

TABLE = (np.random.default_rng(0).random((60, 60)) < 0.3).astype(float)


def bit_client(epsilon: float) -> Callable[[Any, Any, Any], np.ndarray]:
    """A client that sends by randomized response whether it has any interaction."""

    def client(history: Any, model: Any, rng: Any) -> np.ndarray:
        bit = float(len(history) > 0)
        return np.array([bit if rng.random() >= 1 / (1 + math.exp(epsilon)) else 1 - bit])

    return client


def noisy(history: Any, model: Any, rng: Any) -> np.ndarray:
    return np.array([float(len(history) > 0) + rng.normal()])


def repeat_bit(history: Any, model: Any, rng: Any, state: dict[str, Any]) -> dict[str, np.ndarray]:
    """Sends the same noisy bit in every round."""
    if "bit" not in state:
        state["bit"] = bit_client(1.0)(history, model, rng)
    return {"w": state["bit"]}


def send_all_gradients(history: Any, model: np.ndarray, rng: Any) -> np.ndarray:
    """Sends the gradient of a squared error, clipped to 1; an empty history sends one as well."""
    step = history.dense().clip(0, 1) - model
    return np.asarray(step / max(1.0, float(np.linalg.norm(step))))


def send_own_gradients(history: Any, model: np.ndarray, rng: Any) -> np.ndarray:
    """Sends the gradient at the client's own items only."""
    return np.asarray(send_all_gradients(history, model, rng) * (history.dense() > 0))


def send_bits(history: Any, model: Any, rng: Any) -> np.ndarray:
    return np.asarray((history.dense() > 0) ^ (rng.random(history.n_items) < 0.2))


def make_setups(
    game: str, client: Callable[..., Any], claim: Claim | list[Claim], **system: Any
) -> list[GameSetup | Skip]:
    target = wrap_system(client, claim=claim, **system)
    data = read_data_object(TABLE, None)[0]
    assert data is not None
    ground = GameInputs(target=target, interactions=data, population_shape=(24, 32), is_quick=True)
    return list(CANARY_GAMES[game].make_setups(ground, np.random.default_rng(1)))


@pytest.mark.parametrize(("share", "users"), [(0.04, 25), (0.02, 50), (0.03, 33)])
@pytest.mark.parametrize("vantage", ["aggregate", "shuffled"])
def test_a_sampled_user_may_not_send(vantage: str, share: float, users: int) -> None:
    """A bit of epsilon 4 sent with the sampling probability has epsilon 1.1 in the sum."""
    claim = Claim(epsilon=1.3, unit="user", vantage=vantage, adjacency="add-remove")
    for game in ("round", "training"):
        (only,) = make_setups(game, bit_client(4.0), claim, share=share)
        assert isinstance(only, GameSetup)
        assert isinstance(only.simulation, TrainingSimulator)
        assert only.population.n_users == users


def test_sampling_may_lower_delta_but_not_a_ratio() -> None:
    """A Gaussian message sent with probability 0.08 has 0.08 times its delta."""
    noise = Claim(epsilon=find_gaussian_epsilon(0.25, 1.0), delta=0.02, unit="user")
    (none,) = make_setups("local", noisy, noise, share=0.08)
    assert isinstance(none, Skip)
    assert "random sampling" in none.reason
    (some,) = make_setups("round", noisy, noise, share=0.08)
    assert isinstance(some, GameSetup)
    assert isinstance(some.simulation, TrainingSimulator)
    for game in ("local", "round"):
        (pure,) = make_setups(game, bit_client(1.0), Claim(epsilon=1.0, unit="user"), share=0.08)
        assert isinstance(pure, GameSetup)
        assert isinstance(pure.simulation, RoundSimulator)


def test_only_independent_rounds_are_steerable() -> None:
    assert wrap_system(noisy, obeys=True).has_independent_rounds
    assert not wrap_system(noisy, model=np.zeros(1)).has_independent_rounds
    assert wrap_system(noisy).has_independent_rounds  # the client takes no model
    assert not wrap_system(noisy, obeys=True, share=0.5).has_independent_rounds
    assert not wrap_system(repeat_bit, obeys=True).has_independent_rounds


def test_one_client_without_a_model_is_simulated_alone() -> None:
    claim = Claim(epsilon=1.0, unit="user")
    (alone,) = make_setups("training", send_bits, claim, rounds=8)
    assert isinstance(alone, GameSetup)
    assert isinstance(alone.simulation, RoundSimulator)
    assert alone.simulation.n_messages == alone.target.sizes.rounds


def test_an_empty_history_with_an_upload_is_two_removals_away() -> None:
    claim = Claim(epsilon=0.5, delta=0.05, unit="user", vantage="release")
    model: dict[str, Any] = {"model": lambda items: np.full(items, 0.5), "kinds": "change"}
    for client, halved in ((send_all_gradients, True), (send_own_gradients, False)):
        (played,) = make_setups("training", client, claim, **model)
        assert isinstance(played, GameSetup)
        assert played.is_two_removals_apart == halved
        # If any two histories are two removals apart, the game uses the two that differ most.
        assert ("nothing" in played.world_names[1]) == (not halved), played.world_names
        (once,) = make_setups("one-run", client, claim, **model)
        assert isinstance(once, Skip) == halved


def test_a_claim_for_n_users_is_measured_on_n_users() -> None:
    claim = Claim(epsilon=0.36, delta=0.01, unit="user", vantage="aggregate", horizon="round")
    (played,) = make_setups("round", noisy, claim, n_users=60)
    assert isinstance(played, GameSetup)
    assert played.population.n_users == 60
    with pytest.raises(InputError, match="Expected data of at least 99 users"):
        make_setups("round", noisy, claim, n_users=100)
    with pytest.raises(InputError, match="users=1"):
        wrap_system(noisy, n_users=1)


@pytest.mark.parametrize("users", [None, 30])
def test_a_finding_states_the_number_of_users_of_a_claim(users: int | None) -> None:
    claim = Claim(epsilon=0.5, unit="user", vantage="aggregate", horizon="round")
    record = audit_system(
        noisy, data=TABLE, claim=claim, games=["round"], attacks=[], runs=40, jobs=1, n_users=users
    )
    (note,) = [finding.note for finding in record.findings if finding.measured]
    assert ("made for 30 users" if users else "any number of users; set n_users=N") in note
    assert "The bound is half" in note


def test_a_claim_that_no_game_measures_has_a_reason() -> None:
    """If all ratings are equal, no two rating values can be distinguished."""
    claims = [Claim(epsilon=0.5, unit=unit, horizon="round") for unit in ("rating", "interaction")]
    for game in ("local", "round"):
        played = make_setups(game, send_bits, claims)
        (skipped,) = [each for each in played if isinstance(each, Skip)]
        assert [scope.unit for scope in skipped.scopes] == [Unit.RATING]
        assert len(played) == 2


@pytest.mark.parametrize("delta", [0.0, 1e-3, 0.05])
def test_half_a_bound_for_two_removals_holds_for_one(delta: float) -> None:
    """Each removal shifts the output by 1, under Gaussian noise, or Laplace noise at delta 0."""
    worlds = Worlds(
        names=("two are there", "none"),
        scope=make_local_scope(Unit.USER, Vantage.AGGREGATE, Horizon.ROUND),
        draw=lambda world, size, rng: (
            2.0 * (world == 0) + (rng.normal(size=size) if delta else rng.laplace(size=size))
        ),
    )
    true = find_gaussian_epsilon(delta, 1.0) if delta else 1.0
    estimator = RemovalEstimator(estimator=JointBinomial(), max_claimed=true)
    found = estimator.measure_bound(
        worlds, delta=delta, confidence=0.99, samples=20_000, rng=np.random.default_rng(1)
    )
    assert 0.5 * true < found.epsilon <= true
    assert found.delta == delta
    largest = estimator.find_max_bound(20_000, delta=delta, confidence=0.99)
    assert found.epsilon <= largest == pytest.approx(found.largest)
