"""What models tell of profiles, one profile at a time and by definition.

Who is in a sum: wrapped systems of several servers, whose members are known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from fedrec_auditor.accountants.statements import Vantage
from fedrec_auditor.attacks.parts.profile_fit import fits, reads, shares, solves
from fedrec_auditor.attacks.parts.uploads import item_steps, popularity
from fedrec_auditor.auditor.games import metrics
from fedrec_auditor.auditor.games.row_order import SimulatedClient
from fedrec_auditor.targets.datasets.synthetic import Synthetic
from fedrec_auditor.targets.systems.base import Target
from fedrec_auditor.targets.transcript import Kind, Public, RoundView, View, Wire
from fedrec_auditor.targets.wrapped.wrapped_system import WrappedSystem
from tests.attacks.made import sent, view_of

N, M, D = 6, 15, 3
RNG = np.random.default_rng(0)
TABLES = [RNG.normal(size=(M, D)) for _ in range(3)]
RATINGS = np.where(RNG.random((N, M)) < 0.4, RNG.integers(1, 6, (N, M)), 0).astype(float)
PUBLIC = Public(algorithm="made", n_users=N, n_items=M)


def peers(*tables: np.ndarray, **more: np.ndarray) -> View:
    rounds = tuple(RoundView(broadcast={"items": table, **more}) for table in tables)
    return View(vantage=Vantage.PEERS, public=PUBLIC, rounds=rounds)


def vector(table: np.ndarray, held: np.ndarray) -> np.ndarray:
    """Ridge regression of 0 and 1 on the rows, by its normal equations."""
    ridge = 0.01 * np.square(table).sum() / D
    return np.linalg.solve(table.T @ table + ridge * np.eye(D), table.T @ held)


def test_columns_are_what_they_are_said_to_be() -> None:
    users = RNG.normal(size=(4, D))
    found = fits(peers(*TABLES, users=users), sparse.csr_array(RATINGS))
    assert found.shape == (N, 3)
    last = TABLES[-1]
    for row, ratings in zip(found, RATINGS, strict=True):
        held = (ratings > 0).astype(float)
        size = held.sum()
        own = last[held > 0]
        ridge = 0.01 * np.square(last).sum() / M * size
        best = np.linalg.solve(own.T @ own + ridge * np.eye(D), own.T @ ratings[held > 0])
        rated = best @ (own.T @ ratings[held > 0]) / np.square(ratings).sum()
        predicted = users @ last.T
        cosines = predicted @ held / np.linalg.norm(predicted, axis=1) / np.sqrt(size)
        explained = held @ last @ vector(last, held) / size
        np.testing.assert_allclose(row, [explained, rated, cosines.max()])


def test_similarities_are_summed_over_pairs_of_a_profile() -> None:
    places = np.array([[1, 2], [0, 2], [0, 3], [0, 1]])
    values = np.array([[0.5, 0.25], [0.5, 0.125], [0.25, 1.0], [2.0, 4.0]])
    public = replace(PUBLIC, n_items=4)
    model = {"neighbours": places, "similarity": values}
    view = View(vantage=Vantage.RELEASE, public=public, rounds=(RoundView(broadcast=model),))
    assert reads(view)
    profiles = sparse.csr_array(np.array([[1.0, 1, 1, 0], [0, 0, 0, 3]]))
    found = fits(view, profiles)
    np.testing.assert_allclose(found[:, 0], [(0.5 + 0.25 + 0.5 + 0.125 + 0.25) / 3, 0.0])


def test_nothing_is_read_without_items() -> None:
    assert not reads(View(vantage=Vantage.RELEASE, public=PUBLIC, rounds=()))
    only = View(
        vantage=Vantage.RELEASE,
        public=PUBLIC,
        rounds=(RoundView(broadcast={"users": np.ones((N, D)), "items": np.ones(M)}),),
    )
    assert not reads(only)


@pytest.mark.parametrize("kind", [Kind.MODEL, Kind.CHANGE])
@pytest.mark.parametrize("vantage", [Vantage.SHUFFLED, Vantage.AGGREGATE])
def test_a_step_is_the_sum_of_all_changes(kind: Kind, vantage: Vantage) -> None:
    """Whatever is sent, models or changes; a sum does not say which of the two it is of."""
    changes = 0.1 * RNG.normal(size=(4, M, D))
    moved = changes + TABLES[0] if kind is Kind.MODEL else changes
    one = sent({"items": Wire.of(moved, kind)}, {"items": TABLES[0]})
    rng = np.random.default_rng(1)
    ((table, (step,)),) = item_steps(view_of(one, users=N, items=M, vantage=vantage, rng=rng))
    np.testing.assert_allclose(table, TABLES[0])
    np.testing.assert_allclose(step, changes.sum(axis=0), atol=1e-12)


def test_messages_of_parties_are_steps_of_their_own() -> None:
    changes = RNG.normal(size=(2, M, D))
    one = sent({"items": Wire.of(changes + TABLES[0], Kind.MODEL)}, {"items": TABLES[0]})
    ((_, steps),) = item_steps(view_of(one, users=N, items=M, parties=2))
    np.testing.assert_allclose(steps, changes, atol=1e-12)


@pytest.mark.parametrize("settings", [{}, {"negatives": 4.0}, {"alpha": 1.0}])
def test_the_order_of_popularity_is_found_where_users_agree(settings: dict[str, float]) -> None:
    """Users' vectors share a direction; each moves the rows of its own items along its vector.

    A loss over all items moves all rows by the model itself, too.
    """
    rng = np.random.default_rng(3)
    share = 0.9 / (1 + np.arange(M))
    truth = rng.random((400, M)) < share
    vectors = np.array([2.0, 0, 0]) + 0.5 * rng.normal(size=(400, D))
    moved = TABLES[0] + truth.T @ vectors / 400
    if "alpha" in settings:
        moved -= TABLES[0] @ np.diag([3.0, 1.0, 1.0])
    view = peers(TABLES[0], moved)
    found = popularity(replace(view, public=replace(PUBLIC, settings=settings)))
    assert np.corrcoef(found, truth.sum(axis=0))[0, 1] > (0.8 if "alpha" in settings else 0.98)


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
