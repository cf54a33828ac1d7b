"""Learners: parts, scores, refused models, and initial distributions."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.targets.compute import Machine
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.federated import learners as _embeddings
from fedrec_auditor.targets.federated.base import Clients, DataSizes, Learner, LocalSettings
from fedrec_auditor.targets.federated.learners import GcnLearner
from fedrec_auditor.targets.streams import Streams
from tests.targets.federated.oracle import LOGITS

CATALOGUE = DataSizes(n_items=30, n_user_features=4)


def make_learner(name: str, **settings: float) -> Learner:
    learner: Learner = FAMILIES["learners"].load_class(name)(**settings)
    return learner


def make_clients(users: int = 7, items: int = 30, width: int = 4, seed: int = 0) -> Clients:
    rng = np.random.default_rng(seed)
    return Clients(
        interactions=Interactions.create((rng.random((users, items)) < 0.3) * 5.0),
        features=rng.normal(size=(users, width)),
        streams=Streams.spawn(rng, users),
    )


def test_parts_are_those_of_the_paper() -> None:
    """Section 3.1: E_U, W1, W2, b; the item table; an MLP of two layers. d = 64."""
    shapes = GcnLearner().get_param_shapes(DataSizes(n_items=1682, n_user_features=21))
    assert shapes == {
        "user.E": (64, 21),
        "user.W1": (64, 64),
        "user.W2": (64, 64),
        "user.b": (64,),
        "item": (1682, 64),
        "mlp1.weight": (64, 128),
        "mlp1.bias": (64,),
        "mlp2.weight": (1, 64),
        "mlp2.bias": (1,),
    }
    assert list(make_learner("mf").get_param_shapes(CATALOGUE)) == ["user.E", "item"]
    assert list(make_learner("light-gcn").get_param_shapes(CATALOGUE)) == ["user.E", "item"]
    assert set(shapes) - set(make_learner("ncf").get_param_shapes(CATALOGUE)) == {
        "user.W1",
        "user.W2",
        "user.b",
    }


def test_first_models_are_normal_at_the_scale() -> None:
    """The mean of n squares is within 7 standard errors of scale^2: missed once in 10^11."""
    model = GcnLearner(init_scale=0.3).init_model(
        DataSizes(n_items=500, n_user_features=9), np.random.default_rng(0)
    )
    for array in model.values():
        assert array.dtype == np.float32
        n = array.size
        assert abs(np.square(array / 0.3).mean() - 1) < 7 * math.sqrt(2 / n) + 30 * (n == 1)


@pytest.mark.parametrize("block", [1, 1 << 24])
@pytest.mark.parametrize("name", sorted(LOGITS))
def test_scores_are_the_logits_of_every_item(
    name: str, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_embeddings, "_BLOCK", block)
    learner, devices = make_learner(name, dimension=5, init_scale=0.7), make_clients()
    model = learner.init_model(CATALOGUE, np.random.default_rng(1))
    scores = learner.score(model, devices)
    assert scores.shape == (7, 30)
    p = {key: torch.tensor(value, dtype=torch.float64) for key, value in model.items()}
    for user in range(7):
        own = devices.interactions.take_users(np.array([user])).ratings.indices.astype(np.int64)
        x = torch.tensor(devices.features[user])
        slow = LOGITS[name](p, x, p["item"][torch.tensor(own)], p["item"])
        np.testing.assert_allclose(scores[user], slow.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", sorted(LOGITS))
def test_a_device_without_items_has_scores(name: str) -> None:
    devices = Clients(
        interactions=Interactions.create(np.zeros((2, 30))),
        features=np.ones((2, 4)),
        streams=Streams.spawn(np.random.default_rng(0), 2),
    )
    learner = make_learner(name)
    assert np.isfinite(
        learner.score(learner.init_model(CATALOGUE, np.random.default_rng(1)), devices)
    ).all()


def test_models_of_other_shapes_and_empty_linear_terms_are_refused() -> None:
    learner, devices = make_learner("ncf", dimension=3), make_clients()
    model = learner.init_model(CATALOGUE, np.random.default_rng(0))
    with pytest.raises(InputError, match="Expected a model with"):
        learner.train({**model, "item": np.zeros((29, 3))}, devices, LocalSettings(), Machine())
    with pytest.raises(InputError, match="Expected a model with"):
        learner.score({"item": model["item"]}, devices)
    with pytest.raises(InputError, match=r"user\.W1"):
        learner.train(model, devices, LocalSettings(linear_term_scales={"user.W1": 1.0}), Machine())
