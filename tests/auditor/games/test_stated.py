"""Claims of a stranger's system are held against worlds that they speak of, and no others."""

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
from fedrec_auditor.auditor.games.canary_game import (
    GameInputs,
    GameSetup,
    RemovalEstimator,
    SkippedScopes,
)
from fedrec_auditor.auditor.games.canary_games import CANARY_GAMES
from fedrec_auditor.auditor.games.crowd_game import TrainingSimulator
from fedrec_auditor.auditor.games.round import RoundSimulator
from fedrec_auditor.auditor.plan.sources import read_data_object
from fedrec_auditor.auditor.worlds.estimators.lower_bound_estimators import JointBinomial
from fedrec_auditor.auditor.worlds.worlds import Worlds

TABLE = (np.random.default_rng(0).random((60, 60)) < 0.3).astype(float)


def flipped(epsilon: float) -> Callable[[Any, Any, Any], np.ndarray]:
    """One bit, whether there is a history, by randomized response."""

    def client(history: Any, model: Any, rng: Any) -> np.ndarray:
        bit = float(len(history) > 0)
        return np.array([bit if rng.random() >= 1 / (1 + math.exp(epsilon)) else 1 - bit])

    return client


def noisy(history: Any, model: Any, rng: Any) -> np.ndarray:
    return np.array([float(len(history) > 0) + rng.normal()])


def memoised(history: Any, model: Any, rng: Any, state: dict[str, Any]) -> dict[str, np.ndarray]:
    """A client that sends the same noisy bit in every round."""
    if "bit" not in state:
        state["bit"] = flipped(1.0)(history, model, rng)
    return {"w": state["bit"]}


def away(history: Any, model: np.ndarray, rng: Any) -> np.ndarray:
    """The gradient of a squared error, clipped to 1, which an empty history has as well."""
    step = history.dense().clip(0, 1) - model
    return np.asarray(step / max(1.0, float(np.linalg.norm(step))))


def own(history: Any, model: np.ndarray, rng: Any) -> np.ndarray:
    """A client that sends its own items only."""
    return np.asarray(away(history, model, rng) * (history.dense() > 0))


def bits(history: Any, model: Any, rng: Any) -> np.ndarray:
    return np.asarray((history.dense() > 0) ^ (rng.random(history.n_items) < 0.2))


def settings(
    game: str, client: Callable[..., Any], claim: Claim | list[Claim], **system: Any
) -> list[GameSetup | SkippedScopes]:
    target = wrap_system(client, claim=claim, **system)
    data = read_data_object(TABLE, None)[0]
    assert data is not None
    ground = GameInputs(target=target, interactions=data, population_shape=(24, 32), is_quick=True)
    return list(CANARY_GAMES[game].make_setups(ground, np.random.default_rng(1)))


@pytest.mark.parametrize(("share", "users"), [(0.04, 25), (0.02, 50), (0.03, 33)])
@pytest.mark.parametrize("vantage", ["aggregate", "shuffled"])
def test_who_is_drawn_by_lot_may_not_send(vantage: str, share: float, users: int) -> None:
    """A bit of epsilon 4 that one of many sends has an epsilon of 1.1 in the sum."""
    claim = Claim(epsilon=1.3, unit="user", vantage=vantage, adjacency="add-remove")
    for game in ("round", "training"):
        (only,) = settings(game, flipped(4.0), claim, share=share)
        assert isinstance(only, GameSetup)
        assert isinstance(only.simulation, TrainingSimulator)
        assert only.population.n_users == users


def test_a_delta_may_count_on_the_lot_and_a_ratio_not() -> None:
    """Sent with probability .08, a Gaussian's delta is .08 times as large."""
    noise = Claim(epsilon=find_gaussian_epsilon(0.25, 1.0), delta=0.02, unit="user")
    (none,) = settings("local", noisy, noise, share=0.08)
    assert isinstance(none, SkippedScopes)
    assert "random sampling" in none.reason
    (some,) = settings("round", noisy, noise, share=0.08)
    assert isinstance(some, GameSetup)
    assert isinstance(some.simulation, TrainingSimulator)
    for game in ("local", "round"):
        (pure,) = settings(game, flipped(1.0), Claim(epsilon=1.0, unit="user"), share=0.08)
        assert isinstance(pure, GameSetup)
        assert isinstance(pure.simulation, RoundSimulator)


def test_a_server_steers_rounds_that_do_not_depend_on_each_other() -> None:
    assert wrap_system(noisy, obeys=True).has_independent_rounds
    assert not wrap_system(noisy, model=np.zeros(1)).has_independent_rounds
    assert wrap_system(noisy).has_independent_rounds  # there is no model to take
    assert not wrap_system(noisy, obeys=True, share=0.5).has_independent_rounds
    assert not wrap_system(memoised, obeys=True).has_independent_rounds


def test_of_one_client_without_a_model_no_other_is_simulated() -> None:
    claim = Claim(epsilon=1.0, unit="user")
    (alone,) = settings("training", bits, claim, rounds=8)
    assert isinstance(alone, GameSetup)
    assert isinstance(alone.simulation, RoundSimulator)
    assert alone.simulation.n_messages == alone.target.sizes.rounds


def test_an_empty_history_that_sends_something_is_two_removals_from_a_full_one() -> None:
    claim = Claim(epsilon=0.5, delta=0.05, unit="user", vantage="release")
    model: dict[str, Any] = {"model": lambda items: np.full(items, 0.5), "kinds": "change"}
    for client, halved in ((away, True), (own, False)):
        (played,) = settings("training", client, claim, **model)
        assert isinstance(played, GameSetup)
        assert played.has_two_removals == halved
        # If any two histories are two removals apart, the game uses the two that differ most.
        assert ("nothing" in played.world_names[1]) == (not halved), played.world_names
        (once,) = settings("one-run", client, claim, **model)
        assert isinstance(once, SkippedScopes) == halved


def test_a_claim_for_so_many_users_is_tried_on_so_many() -> None:
    claim = Claim(epsilon=0.36, delta=0.01, unit="user", vantage="aggregate", horizon="round")
    (played,) = settings("round", noisy, claim, n_users=60)
    assert isinstance(played, GameSetup)
    assert played.population.n_users == 60
    with pytest.raises(InputError, match="Expected data of at least 99 users"):
        settings("round", noisy, claim, n_users=100)
    with pytest.raises(InputError, match="users=1"):
        wrap_system(noisy, n_users=1)


@pytest.mark.parametrize("users", [None, 30])
def test_a_finding_says_for_how_many_users_a_claim_is_taken(users: int | None) -> None:
    claim = Claim(epsilon=0.5, unit="user", vantage="aggregate", horizon="round")
    record = audit_system(
        noisy, data=TABLE, claim=claim, games=["round"], attacks=[], runs=40, jobs=1, n_users=users
    )
    (note,) = [finding.note for finding in record.findings if finding.measured]
    assert ("made for 30 users" if users else "any number of users; set n_users=N") in note
    assert "The bound is half" in note


def test_a_claim_that_no_game_could_play_leaves_a_reason() -> None:
    """If all ratings are equal, there are no two values to distinguish."""
    claims = [Claim(epsilon=0.5, unit=unit, horizon="round") for unit in ("rating", "interaction")]
    for game in ("local", "round"):
        played = settings(game, bits, claims)
        (told,) = [each for each in played if isinstance(each, SkippedScopes)]
        assert [scope.unit for scope in told.scopes] == [Unit.RATING]
        assert len(played) == 2


@pytest.mark.parametrize("delta", [0.0, 1e-3, 0.05])
def test_half_a_bound_for_two_is_one_for_one(delta: float) -> None:
    """Two removals of 1 each under Gaussian, or at delta 0 Laplace, noise."""
    worlds = Worlds(
        names=("two are there", "none"),
        scope=make_local_scope(Unit.USER, Vantage.AGGREGATE, Horizon.ROUND),
        draw=lambda world, size, rng: (
            2.0 * (world == 0) + (rng.normal(size=size) if delta else rng.laplace(size=size))
        ),
    )
    true = find_gaussian_epsilon(delta, 1.0) if delta else 1.0
    estimator = RemovalEstimator(estimator=JointBinomial(), max_claimed_epsilon=true)
    found = estimator.measure_bound(
        worlds, delta=delta, confidence=0.99, samples=20_000, rng=np.random.default_rng(1)
    )
    assert 0.5 * true < found.epsilon <= true
    assert found.delta == delta
    largest = estimator.find_max_bound(20_000, delta=delta, confidence=0.99)
    assert found.epsilon <= largest == pytest.approx(found.largest)
