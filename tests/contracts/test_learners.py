"""What every base recommender must keep: run over all of them, plug-ins included."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray

from fedrec_auditor.auditor.families import FAMILIES
from fedrec_auditor.targets.components import Component, Rows
from fedrec_auditor.targets.compute import Compute
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.learners.base import Catalogue, Clients, Learner, LocalTraining
from fedrec_auditor.targets.streams import Streams

USERS, ITEMS, FEATURES = 8, 25, 5
CATALOGUE = Catalogue(n_items=ITEMS, n_user_features=FEATURES, n_item_features=3)
LOCAL = LocalTraining(epochs=2, batch=8, learning_rate=0.01)


@pytest.fixture(params=FAMILIES["learners"].names())
def learner(request: pytest.FixtureRequest) -> Learner:
    made: Learner = FAMILIES["learners"].member(request.param)()
    assert vars(type(made)).get("name", request.param) == request.param
    return made


@pytest.fixture
def clients() -> Clients:
    """The first device has no items, the second all."""
    rng = np.random.default_rng(0)
    held = rng.random((USERS, ITEMS)) < 0.3
    held[0], held[1] = False, True
    return Clients(
        interactions=Interactions.of(held * rng.integers(1, 6, held.shape)),
        features=rng.normal(size=(USERS, FEATURES)).astype(np.float32),
        streams=Streams.spawn(rng, USERS),
        item_features=rng.normal(size=(ITEMS, 3)).astype(np.float32),
    )


@pytest.fixture
def model(learner: Learner) -> dict[str, NDArray[Any]]:
    return learner.initial(CATALOGUE, np.random.default_rng(1))


def some(clients: Clients, users: list[int]) -> Clients:
    at = np.array(users, dtype=np.int64)
    return Clients(
        interactions=clients.interactions.take(at),
        features=clients.features[at],
        streams=clients.streams.take(at),
        item_features=clients.item_features,
    )


def dense(trained: dict[str, Component], user: int) -> dict[str, NDArray[Any]]:
    return {name: part.dense(np.array([user]))[0] for name, part in trained.items()}


def close(one: NDArray[Any], other: NDArray[Any]) -> None:
    largest = max(1.0, float(np.abs(other).max(initial=0)))
    np.testing.assert_allclose(one, other, rtol=0, atol=1e-4 * largest)


def test_first_models_have_the_stated_parts(
    learner: Learner, model: dict[str, NDArray[Any]]
) -> None:
    shapes = learner.shapes(CATALOGUE)
    assert {name: array.shape for name, array in model.items()} == shapes
    assert all(array.dtype == np.float32 for array in model.values())
    assert all(np.isfinite(array).all() for array in model.values())
    assert shapes["item"][0] == ITEMS
    groups = [name.partition(".")[0] for name in shapes]
    assert list(dict.fromkeys(groups)) == list(learner.groups)


def test_equal_generators_give_equal_models(
    learner: Learner, model: dict[str, NDArray[Any]]
) -> None:
    again, other = (learner.initial(CATALOGUE, np.random.default_rng(seed)) for seed in (1, 2))
    for name, array in model.items():
        np.testing.assert_array_equal(array, again[name])
    assert not np.array_equal(model["item"], other["item"])


def test_devices_return_the_parts_they_were_sent(
    learner: Learner, model: dict[str, NDArray[Any]], clients: Clients
) -> None:
    before = {name: array.copy() for name, array in model.items()}
    trained = learner.train(model, clients, LOCAL, Compute())
    assert list(trained) == list(model)
    for name, part in trained.items():
        assert len(part) == USERS
        assert part.shape == model[name].shape
        assert np.isfinite(part.dense(np.arange(USERS))).all()
        np.testing.assert_array_equal(model[name], before[name])
    item = trained["item"]
    assert isinstance(item, Rows)
    assert item.rest is not None
    for name, array in dense(trained, 0).items():
        np.testing.assert_array_equal(array, model[name])
    moved = dense(trained, 1)
    assert all(not np.array_equal(moved[name], model[name]) for name in ("user.E", "item"))


def test_equal_streams_give_equal_bits_and_others_do_not(
    learner: Learner, model: dict[str, NDArray[Any]], clients: Clients
) -> None:
    one, same = (dense(learner.train(model, clients, LOCAL, Compute()), 3) for _ in range(2))
    other_coins = Clients(
        interactions=clients.interactions,
        features=clients.features,
        streams=Streams.spawn(np.random.default_rng(9), USERS),
    )
    other = dense(learner.train(model, other_coins, LOCAL, Compute()), 3)
    for name, array in one.items():
        np.testing.assert_array_equal(array, same[name])
    assert not np.array_equal(one["item"], other["item"])


@pytest.mark.parametrize("kernel", ["torch", "numba"])
def test_a_device_trains_alone_as_in_company(
    learner: Learner, model: dict[str, NDArray[Any]], clients: Clients, kernel: str
) -> None:
    whole = learner.train(model, clients, LOCAL, Compute(kernel=kernel))
    order = [5, 2, 7]
    part = learner.train(model, some(clients, order), LOCAL, Compute(kernel=kernel, threads=2))
    for place, user in enumerate(order):
        for name, array in dense(part, place).items():
            close(array, dense(whole, user)[name])


def test_values_of_ratings_do_not_matter(
    learner: Learner, model: dict[str, NDArray[Any]], clients: Clients
) -> None:
    flat = Clients(
        interactions=Interactions.of((clients.interactions.ratings.toarray() > 0) * 1.0),
        features=clients.features,
        streams=clients.streams,
    )
    one, other = (dense(learner.train(model, c, LOCAL, Compute()), 4) for c in (clients, flat))
    for name, array in one.items():
        np.testing.assert_array_equal(array, other[name])


def test_a_linear_term_moves_its_part_and_scales_with_it(
    learner: Learner, model: dict[str, NDArray[Any]], clients: Clients
) -> None:
    """One step over all examples: the loss has the same gradient, the linear term adds its own."""
    moved = []
    for scale in (0.0, 1.0, 2.0):
        local = LocalTraining(
            epochs=1, batch=1000, learning_rate=0.1, linear_term={"user.E": scale}
        )
        moved.append(dense(learner.train(model, clients, local, Compute()), 3)["user.E"])
    plain, once, twice = moved
    assert np.abs(once - plain).max() > 0.01
    np.testing.assert_allclose(twice - plain, 2 * (once - plain), atol=1e-4)


def test_scores_cover_all_items(
    learner: Learner, model: dict[str, NDArray[Any]], clients: Clients
) -> None:
    scores = learner.score(model, clients)
    assert scores.shape == (USERS, ITEMS)
    assert np.isfinite(scores).all()
    close(learner.score(model, some(clients, [6, 1])), scores[[6, 1]])


@pytest.mark.parametrize(("users", "items", "features"), [(1, 1, 1), (3, 1, 2), (1, 6, 0)])
def test_small_catalogues_and_no_features(
    learner: Learner, users: int, items: int, features: int
) -> None:
    rng = np.random.default_rng(0)
    model = learner.initial(Catalogue(n_items=items, n_user_features=features), rng)
    clients = Clients(
        interactions=Interactions.of(np.ones((users, items))),
        features=np.ones((users, features), dtype=np.float32),
        streams=Streams.spawn(rng, users),
    )
    trained = learner.train(model, clients, LOCAL, Compute())
    assert trained["item"].dense(np.arange(users)).shape == (users, items, model["item"].shape[1])
    assert learner.score(model, clients).shape == (users, items)


def test_learners_travel_between_processes(learner: Learner) -> None:
    assert pickle.dumps(learner)
    assert replace(cast(Any, learner)) == learner
