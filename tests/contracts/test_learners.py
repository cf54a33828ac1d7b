"""Contract tests of every base recommender: the models and scores of its devices."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray

from fedrec_auditor.targets.components import Component, Floats, SparseRows
from fedrec_auditor.targets.compute import Machine
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.federated.base import Clients, DataSizes, Learner, LocalSettings
from fedrec_auditor.targets.federated.learners import LightGcnLearner, MfLearner
from fedrec_auditor.targets.streams import Streams
from fedrec_auditor.targets.transcript import Broadcast
from tests.contracts.laws import BROKEN, make_fixture, members

USERS, ITEMS, FEATURES = 8, 25, 5
CATALOGUE = DataSizes(n_items=ITEMS, n_user_features=FEATURES)
LOCAL = LocalSettings(epochs=2, batch=8, learning_rate=0.01)
Arrays = dict[str, NDArray[Any]]
LEARNERS: dict[str, Learner] = members("learners")


learner = make_fixture(LEARNERS)


def _clients() -> Clients:
    """Devices with random items; the first has none and the second has all items."""
    rng = np.random.default_rng(0)
    held = rng.random((USERS, ITEMS)) < 0.3
    held[0], held[1] = False, True
    return Clients(
        interactions=Interactions.create(held * rng.integers(1, 6, held.shape)),
        features=rng.normal(size=(USERS, FEATURES)).astype(np.float32),
        streams=Streams.spawn(rng, USERS),
    )


def _model(learner: Learner) -> Arrays:
    return learner.init_model(CATALOGUE, np.random.default_rng(1))


def _dense(trained: dict[str, Component], user: int) -> Arrays:
    return {name: part.to_dense(np.array([user]))[0] for name, part in trained.items()}


def _trained(learner: Learner, user: int, clients: Clients | None = None) -> Arrays:
    """Model, as arrays by name, that device ``user`` returns after training the first model."""
    sent = learner.train(_model(learner), clients or _clients(), LOCAL, Machine())
    return _dense(sent, user)


def _close(one: NDArray[Any], other: NDArray[Any]) -> None:
    largest = max(1.0, float(np.abs(other).max(initial=0)))
    np.testing.assert_allclose(one, other, rtol=0, atol=1e-4 * largest)


def test_first_models(learner: Learner) -> None:
    """Checks that a first model is finite and has the stated parts in single precision."""
    model, shapes = _model(learner), learner.get_param_shapes(CATALOGUE)
    assert {name: array.shape for name, array in model.items()} == shapes, "other shapes"
    assert all(array.dtype == np.float32 for array in model.values()), "no single precision"
    assert all(np.isfinite(array).all() for array in model.values()), "not finite"
    assert shapes["item"][0] == ITEMS, f"{shapes['item'][0]} rows for {ITEMS} items"
    groups = [name.partition(".")[0] for name in shapes]
    assert list(dict.fromkeys(groups)) == list(learner.group_names), f"groups {groups}"


def test_parts(learner: Learner) -> None:
    """Checks that devices return all parts of the model, and leave the model unchanged."""
    model, clients = _model(learner), _clients()
    before = {name: array.copy() for name, array in model.items()}
    trained = learner.train(model, clients, LOCAL, Machine())
    assert list(trained) == list(model), f"returned {list(trained)} of {list(model)}"
    for name, part in trained.items():
        assert len(part) == USERS, f"{name} of {len(part)} devices"
        assert part.shape == model[name].shape, f"{name} of shape {part.shape}"
        assert np.isfinite(part.to_dense(np.arange(USERS))).all(), f"{name} is not finite"
    np.testing.assert_equal(model, before)
    item = trained["item"]
    assert isinstance(item, SparseRows), "items are no Rows"
    assert item.broadcast is not None, "items without the rows that were broadcast"
    np.testing.assert_equal(_dense(trained, 0), model)  # the device without items
    moved = _dense(trained, 1)
    for name in ("user.E", "item"):
        assert not np.array_equal(moved[name], model[name]), f"{name} is not trained"


def test_generators(learner: Learner) -> None:
    """Checks that equally seeded generators and streams give equal models, and others do not."""
    model, other = _model(learner), learner.init_model(CATALOGUE, np.random.default_rng(2))
    np.testing.assert_equal(model, _model(learner))
    assert not np.array_equal(model["item"], other["item"]), "another seed gave the same model"
    otherwise = replace(_clients(), streams=Streams.spawn(np.random.default_rng(9), USERS))
    one, other = _trained(learner, 3), _trained(learner, 3, otherwise)
    np.testing.assert_equal(one, _trained(learner, 3))
    assert not np.array_equal(one["item"], other["item"]), "other streams gave the same model"


def test_values(learner: Learner) -> None:
    """Checks that training depends on which items were rated, not on the ratings' values."""
    held = _clients().interactions.ratings.toarray() > 0
    flat = replace(_clients(), interactions=Interactions.create(held * 1.0))
    np.testing.assert_equal(_trained(learner, 4), _trained(learner, 4, flat))


def test_linear_term(learner: Learner) -> None:
    """Checks that the change due to a linear term of the loss is proportional to its scale."""
    model, clients, moved = _model(learner), _clients(), []
    for scale in (0.0, 1.0, 2.0):
        local = LocalSettings(
            epochs=1, batch=1000, learning_rate=0.1, linear_term_scales={"user.E": scale}
        )
        moved.append(_dense(learner.train(model, clients, local, Machine()), 3)["user.E"])
    plain, once, twice = moved
    assert np.abs(once - plain).max() > 0.01, "the linear term moves nothing"
    np.testing.assert_allclose(twice - plain, 2 * (once - plain), atol=1e-4)


def test_user_vectors(learner: Learner) -> None:
    """Checks that a device's user vector changes exactly if the device's scores change.

    Vectors are finite, one row per device, and do not depend on which other devices are given.
    """
    clients, model = _clients(), _model(learner)
    model["user.E"][:, 0] = 0.0  # so that a device's first feature has no effect
    vectors = learner.compute_user_vectors(model, clients)
    assert vectors.ndim == 2, f"vectors of shape {vectors.shape}"
    assert len(vectors) == USERS, f"{len(vectors)} vectors of {USERS} devices"
    assert np.isfinite(vectors).all(), "vectors are not finite"
    pair = clients.take_devices(np.array([6, 1]))
    _close(learner.compute_user_vectors(model, pair), vectors[[6, 1]])
    scores, fewer = learner.score(model, clients), clients.interactions.ratings.toarray()
    fewer[:, 0] = 0.0
    axes = np.eye(FEATURES)
    for what, other in (
        ("a feature of weight zero", replace(clients, features=clients.features + axes[0])),
        ("a feature", replace(clients, features=clients.features + axes[1])),
        ("an item less", replace(clients, interactions=Interactions.create(fewer))),
        ("other streams", replace(clients, streams=Streams.spawn(np.random.default_rng(9), USERS))),
    ):
        one = np.abs(learner.score(model, other) - scores).max(axis=1) > 1e-5
        two = np.abs(learner.compute_user_vectors(model, other) - vectors).max(axis=1) > 1e-5
        np.testing.assert_array_equal(two, one, err_msg=f"{what}: vectors move, scores move")


def test_own_embeddings(learner: Learner) -> None:
    """Checks devices with own user embeddings: they train and score as if these were broadcast."""
    clients = replace(_clients(), features=np.ones((USERS, 1), dtype=np.float32))
    own = learner.init_user_vectors(clients.streams)
    assert own.dtype == np.float32, "no single precision"
    assert len(np.unique(own[:, 0, 0])) == USERS, "devices begin with the same vector"
    fifth = learner.init_user_vectors(clients.streams.take(np.array([5])))
    np.testing.assert_array_equal(fifth, own[5:6])
    sizes = DataSizes(n_items=ITEMS, n_user_features=1)
    whole = learner.init_model(sizes, np.random.default_rng(1))
    sent = {name: array for name, array in whole.items() if name != "user.E"}
    theirs = replace(clients, user_embeddings=own)
    scores = learner.score(sent, theirs)
    for user in (0, 1, 4):
        alone, full = clients.take_devices(np.array([user])), {**whole, "user.E": own[user]}
        _close(learner.score(full, alone), scores[[user]])
        found = learner.train(sent, theirs, LOCAL, Machine())
        expected = _dense(learner.train(full, alone, LOCAL, Machine()), 0)
        assert list(found) == list(expected), f"returned {list(found)}"
        for name, array in _dense(found, user).items():
            _close(array, expected[name])


def test_travel(learner: Learner) -> None:
    """Checks that learners can be pickled, and are equal if their settings are."""
    assert pickle.loads(pickle.dumps(learner)) == learner  # noqa: S301
    assert replace(cast(Any, learner)) == learner, "its copy is another"


@pytest.mark.parametrize("name", LEARNERS)
def test_learners_have_their_names(name: str) -> None:
    assert vars(type(LEARNERS[name])).get("name", name) == name


class GivesFeatures(MfLearner):
    """Faulty learner: returns a user's features as the user's vector."""

    def compute_user_vectors(self, model: Broadcast, clients: Clients) -> Floats:
        return clients.features

    def score(self, model: Broadcast, clients: Clients) -> Floats:
        return np.asarray(super().compute_user_vectors(model, clients) @ model["item"].T)


class ForgetsNeighbours(LightGcnLearner):
    """Faulty learner: scores depend on a device's own items, but its user vector does not."""

    def compute_user_vectors(self, model: Broadcast, clients: Clients) -> Floats:
        return np.asarray(clients.features @ model["user.E"].T)

    def score(self, model: Broadcast, clients: Clients) -> Floats:
        return np.asarray(super().compute_user_vectors(model, clients) @ model["item"].T)


class CentresVectors(MfLearner):
    """Faulty learner: subtracts the mean over all given devices from their vectors."""

    def compute_user_vectors(self, model: Broadcast, clients: Clients) -> Floats:
        found = super().compute_user_vectors(model, clients)
        return np.asarray(found - found.mean(axis=0))

    def score(self, model: Broadcast, clients: Clients) -> Floats:
        return np.asarray(super().compute_user_vectors(model, clients) @ model["item"].T)


@pytest.mark.parametrize("broken", [GivesFeatures(), ForgetsNeighbours(), CentresVectors()])
def test_the_law_of_user_vectors_catches(broken: Learner) -> None:
    with pytest.raises(BROKEN):
        test_user_vectors(broken)
