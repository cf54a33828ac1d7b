"""Who is in a sum: wrapped systems of several servers, whose members are known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedrec_auditor.accountants.statements import Vantage
from fedrec_auditor.attacks.parts.profile_fit import shares, solves
from fedrec_auditor.auditor.games import metrics
from fedrec_auditor.auditor.games.row_order import SimulatedClient
from fedrec_auditor.targets.datasets.synthetic import Synthetic
from fedrec_auditor.targets.systems.base import Target
from fedrec_auditor.targets.transcript import Kind, View
from fedrec_auditor.targets.wrapped.wrapped_system import WrappedSystem

DATA = Synthetic(n_users=80, n_items=60, profile=8).load()
MEMBERS = np.random.default_rng(1).random(DATA.n_users) < 0.5
FACTORS = 6


def first(n_items: int) -> np.ndarray:
    return np.random.default_rng(2).normal(size=(n_items, FACTORS))


def step(history: Any, model: Any) -> np.ndarray:
    """Of a squared loss over the items met, by ratings, on the user vector that fits them."""
    rows = model[history.items]
    vector = np.linalg.solve(rows.T @ rows + np.eye(FACTORS), rows.T @ history.ratings)
    moved = np.zeros_like(model)
    moved[history.items] = np.outer(history.ratings - rows @ vector, vector)
    return moved - 0.01 * np.outer(model @ vector, vector)


def exact(history: Any, model: Any, rng: Any) -> np.ndarray:
    return step(history, model)


def trained(history: Any, model: Any, rng: Any) -> np.ndarray:
    return model + 0.1 * step(history, model)


def noisy(history: Any, model: Any, rng: Any) -> np.ndarray:
    return step(history, model) + rng.normal(size=model.shape)


def decaying(model: np.ndarray, uploads: Any) -> np.ndarray:
    return 0.99 * model + 0.02 * np.sum(list(uploads), axis=0)


class Momentum:
    """A server of a velocity, which the models show."""

    def __init__(self) -> None:
        self.velocity: Any = 0.0

    def __call__(self, model: np.ndarray, uploads: Any) -> np.ndarray:
        self.velocity = 0.9 * self.velocity + 0.02 * np.sum(list(uploads), axis=0)
        return np.asarray(model + self.velocity)


def signs(model: np.ndarray, uploads: Any) -> np.ndarray:
    """No function of the sum."""
    return np.asarray(model + 0.01 * np.sum(np.sign(list(uploads)), axis=0))


def seen(client: Callable[..., Any], vantage: Vantage = Vantage.PEERS, **settings: Any) -> View:
    """What is seen of a training on the members, by whoever has the devices' code."""
    settings = {"rounds": 4, "kinds": {"": Kind.GRADIENT}, **settings}
    system: Target = WrappedSystem(client=client, model=first, **settings)
    run = system.run(DATA.take(np.flatnonzero(MEMBERS)), np.random.default_rng(3))
    view = run.transcript.view(vantage, np.random.default_rng(4))
    return replace(view, public=replace(view.public, client=SimulatedClient.of(system, DATA)))


@pytest.mark.parametrize(
    "view",
    [
        seen(exact, server=decaying),
        seen(exact, server=Momentum()),
        seen(trained, kinds={"": Kind.MODEL}),
        seen(exact, share=0.4, rounds=15, server=decaying),
        seen(exact, Vantage.SHUFFLED),
        seen(trained, Vantage.AGGREGATE, kinds={"": Kind.MODEL}),
        seen(exact, Vantage.AGGREGATE, share=0.4, rounds=15),
    ],
    ids=["decay", "momentum", "averaging", "turns", "shuffled", "sum of models", "sums of turns"],
)
def test_members_are_told_apart_whatever_the_server_does_with_the_sum(view: View) -> None:
    assert solves(view)
    found = shares(view, DATA.ratings)
    assert found[MEMBERS].min() > 0.9 * found[MEMBERS].max() > 10 * abs(found[~MEMBERS]).max()


def test_profiles_that_are_not_known_are_noise() -> None:
    """Of half of the profiles it is better than chance, and not exact."""
    view, known = seen(exact, server=decaying), np.arange(0, DATA.n_users, 2)
    area = metrics.auc(shares(view, DATA.ratings[known]), MEMBERS[known])
    assert 0.6 < area < 1.0


def test_what_is_no_sum_of_messages_that_can_be_computed_is_left_alone() -> None:
    view = seen(exact, server=decaying)
    assert not solves(seen(noisy, server=decaying))  # drawn at random
    assert not solves(replace(view, public=replace(view.public, client=None)))
    assert not solves(replace(view, rounds=view.rounds[-1:]))  # one model is no step
    assert not solves(view, 10**6)  # more than fit memory
    area = metrics.auc(shares(seen(exact, server=signs), DATA.ratings), MEMBERS)
    assert area < 1.0
