"""Random draws of devices, alone and in batches; compiled training compared with autograd."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from fedrec_auditor.auditor.plan.families import FAMILIES
from fedrec_auditor.targets.components import Component, Dense, SparseRows
from fedrec_auditor.targets.compute import Machine
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.federated import local_training as _training
from fedrec_auditor.targets.federated.base import Clients, DataSizes, Learner, LocalSettings
from fedrec_auditor.targets.federated.local_training import (
    Examples,
    draw_examples,
    draw_linear_term,
    draw_row_linear_term,
    draw_visit_orders,
)
from fedrec_auditor.targets.federated.noise import ClippedNoise
from fedrec_auditor.targets.streams import Streams
from tests.targets.federated.oracle import LOGITS, train_one

RARE = 1e-9


def make_streams(count: int, seed: int = 0) -> Streams:
    return Streams.spawn(np.random.default_rng(seed), count)


def list_items(examples: Examples, device: int) -> tuple[list[int], list[int]]:
    """A device's own items and its negatives."""
    part = slice(examples.indptr[device], examples.indptr[device + 1])
    ids, own = examples.item_ids[part], examples.is_positive[part]
    assert (np.diff(ids) > 0).all()
    return ids[own].tolist(), ids[~own].tolist()


@settings(max_examples=60)
@given(
    users=st.integers(1, 6),
    items=st.integers(1, 25),
    negatives=st.integers(0, 5),
    share=st.floats(0, 1),
    seed=st.integers(0, 2**32),
)
def test_own_items_and_negatives_do_not_depend_on_the_batch(
    users: int, items: int, negatives: int, share: float, seed: int
) -> None:
    held = np.random.default_rng(seed).random((users, items)) < share
    interactions, flips = Interactions.create(held.astype(float)), make_streams(users, seed)
    drawn = draw_examples(interactions, flips, negatives)
    assert len(drawn.n_examples) == users
    for user in range(users):
        own, others = list_items(drawn, user)
        assert own == np.flatnonzero(held[user]).tolist()
        assert len(others) == min(negatives * len(own), items - len(own))
        alone = draw_examples(
            interactions.take_users(np.array([user])), flips.take(np.array([user])), negatives
        )
        assert list_items(alone, 0) == (own, others)


def test_blocks_of_devices_change_nothing(monkeypatch) -> None:
    held = np.random.default_rng(0).random((20, 30)) < 0.2
    interactions, flips = Interactions.create(held.astype(float)), make_streams(20)
    whole = draw_examples(interactions, flips, 2)
    monkeypatch.setattr(_training, "_BLOCK", 70)
    parts = draw_examples(interactions, flips, 2)
    np.testing.assert_array_equal(whole.item_ids, parts.item_ids)
    np.testing.assert_array_equal(whole.indptr, parts.indptr)
    np.testing.assert_array_equal(whole.is_positive, parts.is_positive)


def test_negatives_are_uniform_over_pairs_of_unobserved_items() -> None:
    """Two of five items: each of the ten pairs is drawn by a tenth of 20,000 devices."""
    n = 20_000
    held = np.zeros((n, 7))
    held[:, [2, 5]] = 1
    drawn = draw_examples(Interactions.create(held), make_streams(n), 1)
    ids = drawn.item_ids[~drawn.is_positive].reshape(n, 2)
    counts = np.unique(ids[:, 0] * 7 + ids[:, 1], return_counts=True)[1]
    assert len(counts) == 10
    assert stats.chisquare(counts).pvalue > RARE


def test_no_devices_draw_nothing() -> None:
    drawn = draw_examples(Interactions.create(np.zeros((0, 3))), make_streams(0), 4)
    assert len(drawn.item_ids) == len(drawn.n_examples) == 0
    assert draw_visit_orders(make_streams(0), drawn.n_examples, 0).shape == (0, 0)


@settings(max_examples=60)
@given(
    sizes=st.lists(st.integers(0, 40), min_size=1, max_size=6),
    epoch=st.integers(0, 9),
    seed=st.integers(0, 99),
)
def test_orders_are_permutations_in_any_batch(sizes: list[int], epoch: int, seed: int) -> None:
    flips = make_streams(len(sizes), seed)
    order = draw_visit_orders(flips, np.array(sizes), epoch)
    for user, size in enumerate(sizes):
        assert sorted(order[user, :size]) == list(range(size))
        assert order[user, size:].tolist() == list(range(size, max(sizes)))
        alone = draw_visit_orders(flips.take(np.array([user])), np.array([size]), epoch)
        np.testing.assert_array_equal(alone[0], order[user, :size])


def test_orders_are_uniform_and_differ_between_epochs() -> None:
    n = 12_000
    flips, sizes = make_streams(n), np.full(n, 4)
    first, second = (draw_visit_orders(flips, sizes, epoch) for epoch in (0, 1))
    code = first @ 4 ** np.arange(4)
    assert stats.chisquare(np.unique(code, return_counts=True)[1]).pvalue > RARE
    both = np.zeros((4, 4))
    np.add.at(both, (first[:, 0], second[:, 0]), 1)
    assert stats.chisquare(both.ravel()).pvalue > RARE


def test_linear_terms_are_laplace_and_row_terms_belong_to_items() -> None:
    shapes = {"user.E": (3, 200), "item": (50, 4), "mlp1.bias": (600,)}
    local = LocalSettings(linear_term_scales={"user.E": 2.0, "item": 3.0, "mlp1.bias": 2.0})
    flips = make_streams(30)
    dense, bias = (draw_linear_term(flips, local, shapes, name) for name in ("user.E", "mlp1.bias"))
    assert dense.shape == (30, 3, 200)
    assert stats.kstest(dense.ravel() / 2, "laplace").pvalue > RARE
    assert abs(np.corrcoef(dense.ravel(), bias.ravel())[0, 1]) < 0.05
    held = (np.random.default_rng(0).random((30, 50)) < 0.3).astype(float)
    interactions = Interactions.create(held)
    few, all_items = (draw_examples(interactions, flips, q) for q in (0, 50))
    table = draw_row_linear_term(flips, local, shapes, all_items).reshape(30, 50, 4)
    assert stats.kstest(table.ravel() / 3, "laplace").pvalue > RARE
    np.testing.assert_array_equal(
        draw_row_linear_term(flips, local, shapes, few), table[held.astype(bool)]
    )


CPU = Machine()
# Tolerance of float32 results over the largest parameter, after the few steps taken here.
TOLERANCE = 2e-5


def setup(
    name: str, *, users: int, items: int, d: int, width: int, seed: int, dense: float = 0.3
) -> tuple[Learner, dict[str, NDArray[Any]], Clients]:
    """A learner, an initial model and devices; the first device has no items, the last all."""
    rng = np.random.default_rng(seed)
    held = rng.random((users, items)) < dense
    held[0], held[-1] = False, True
    learner: Learner = FAMILIES["learners"].load_class(name)(dimension=d, init_scale=0.5)
    model = learner.init_model(DataSizes(n_items=items, n_user_features=width), rng)
    clients = Clients(
        interactions=Interactions.create(held.astype(float)),
        features=rng.normal(size=(users, width)),
        streams=Streams.spawn(rng, users),
    )
    return learner, model, clients


def dense(trained: dict[str, Component], user: int) -> dict[str, NDArray[Any]]:
    return {name: part.to_dense(np.array([user]))[0] for name, part in trained.items()}


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("name", sorted(LOGITS))
@settings(max_examples=5, derandomize=True, database=None)
@given(
    users=st.integers(2, 5),
    items=st.integers(2, 30),
    d=st.integers(1, 9),
    width=st.integers(0, 5),
    batch=st.integers(1, 40),
    epochs=st.integers(1, 3),
    negatives=st.integers(0, 4),
    moved=st.sampled_from([(), ("item",), ("user.E", "mlp2.bias"), ("item", "user.E", "user.b")]),
    noise=st.sampled_from([(), ("item",), ("item", "user.E", "mlp1.weight", "mlp2.bias")]),
    seed=st.integers(0, 2**32),
)
@example(3, 40, 8, 4, 8, 2, 4, ("item", "user.E", "user.W1", "user.W2", "mlp1.weight"), (), 1)
@example(2, 30, 16, 3, 32, 5, 4, (), (), 2)
@example(3, 30, 8, 3, 8, 3, 4, (), ("item", "user.E", "user.W2", "mlp1.weight"), 3)
def test_training_agrees_with_autograd(
    name: str,
    optimizer: Literal["sgd", "adam"],
    users: int,
    items: int,
    d: int,
    width: int,
    batch: int,
    epochs: int,
    negatives: int,
    moved: tuple[str, ...],
    noise: tuple[str, ...],
    seed: int,
) -> None:
    learner, model, clients = setup(name, users=users, items=items, d=d, width=width, seed=seed)
    local = LocalSettings(
        epochs=epochs,
        batch=batch,
        negatives=negatives,
        learning_rate=0.02,
        optimizer=optimizer,
        linear_term_scales={part: 1.5 for part in moved if part in model},
        epoch_noise={part: ClippedNoise(0.8, 0.1) for part in noise if part in model},
    )
    squared = name == "mf" and seed % 2 == 1
    if squared:
        learner = replace(learner, loss="squared")
    trained = learner.train(model, clients, local, Machine())
    assert list(trained) == list(model)
    for user in range(users):
        slow, fast = train_one(name, model, clients, user, local, squared), dense(trained, user)
        largest = max(1.0, *(np.abs(part).max(initial=0) for part in slow.values()))
        for part, expected in slow.items():
            assert fast[part].dtype == np.float32
            np.testing.assert_allclose(
                fast[part], expected, rtol=0, atol=TOLERANCE * largest, err_msg=part
            )


@pytest.mark.parametrize("name", sorted(LOGITS))
def test_steps_are_large_enough_to_show_a_wrong_gradient(name: str) -> None:
    """Sensitivity of the comparison above: every component moves by at least 100 tolerances."""
    learner, model, clients = setup(name, users=3, items=30, d=8, width=4, seed=1)
    local = LocalSettings(epochs=2, batch=8, learning_rate=0.02)
    trained = dense(learner.train(model, clients, local, Machine()), 1)
    for part, before in model.items():
        assert np.abs(trained[part] - before).max() > 100 * TOLERANCE, part


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("noise", [{}, {"item": ClippedNoise(0.5, 0.1)}])
@pytest.mark.parametrize("linear_term", [{}, {"item": 1.0, "user.W2": 2.0}])
def test_fused_results_do_not_depend_on_batch_order_and_threads(
    linear_term: dict[str, float],
    noise: dict[str, ClippedNoise],
    optimizer: Literal["sgd", "adam"],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    learner, model, clients = setup("gcn", users=9, items=60, d=12, width=3, seed=3)
    local = LocalSettings(
        epochs=2, batch=16, optimizer=optimizer, linear_term_scales=linear_term, epoch_noise=noise
    )
    whole = learner.train(model, clients, local, Machine())
    for user in range(9):
        alone = learner.train(model, clients.take_devices(np.array([user])), local, Machine())
        are_equal(dense(whole, user), dense(alone, 0))
    monkeypatch.setattr(_training, "_ORDERED", 300)  # several blocks per thread
    order = np.array([4, 8, 0, 3, 7, 1, 2, 6, 5])
    threaded = learner.train(model, clients.take_devices(order), local, Machine(threads=3))
    for place, user in enumerate(order):
        are_equal(dense(whole, user), dense(threaded, place))


def are_equal(one: dict[str, NDArray[Any]], other: dict[str, NDArray[Any]]) -> None:
    for part, values in one.items():
        np.testing.assert_array_equal(values, other[part], err_msg=part)


def test_diverging_devices_do_not_change_others() -> None:
    """The features of one device overflow; the other devices do not change."""
    learner, model, clients = setup("mf", users=6, items=40, d=4, width=2, seed=6)
    # the device with all items is trained first
    backwards = clients.take_devices(np.array([5, 4, 3, 2, 1, 0]))
    backwards.features[0] = 1e30
    local = LocalSettings(epochs=9, batch=8, negatives=1, learning_rate=0.1)
    with np.errstate(all="ignore"):
        trained = learner.train(model, backwards, local, Machine())
    assert not np.isfinite(dense(trained, 0)["item"][0]).any()
    for user in range(1, 6):
        alone = learner.train(model, backwards.take_devices(np.array([user])), local, Machine())
        for part, values in dense(alone, 0).items():
            np.testing.assert_allclose(dense(trained, user)[part], values, rtol=0, atol=TOLERANCE)


def test_devices_send_their_touched_rows_only() -> None:
    learner, model, clients = setup("gcn", users=6, items=50, d=4, width=3, seed=5, dense=0.1)
    local = LocalSettings(epochs=1, negatives=2)
    trained = learner.train(model, clients, local, Machine())
    rows = trained["item"]
    np.testing.assert_array_equal(rows.broadcast, model["item"])
    held = np.diff(clients.interactions.ratings.indptr)
    np.testing.assert_array_equal(np.diff(rows.indptr), np.minimum(3 * held, 50))
    for user in range(6):
        ids = rows.row_ids[rows.indptr[user] : rows.indptr[user + 1]]
        assert (np.diff(ids) > 0).all()
        assert set(clients.interactions.take_users(np.array([user])).ratings.indices) <= set(ids)
    for part in trained.values():
        assert isinstance(part, Dense | SparseRows)
    for name, values in dense(trained, 0).items():  # has no examples
        np.testing.assert_array_equal(values, model[name])


@pytest.mark.parametrize("normal", [False, True])
def test_noise_between_epochs_covers_all_entries_without_items(normal: bool) -> None:
    """Without items, each epoch except the last only clips the broadcast and adds noise."""
    learner, model, clients = setup("mf", users=2, items=900, d=4, width=2, seed=5)
    noise = ClippedNoise(0.5, 0.1, normal)
    deviation = 0.1 if normal else 0.1 * np.sqrt(2)
    for epochs in (1, 2, 5):
        local = LocalSettings(epochs=epochs, epoch_noise=dict.fromkeys(model, noise))
        trained = dense(learner.train({**model, "item": 0 * model["item"]}, clients, local, CPU), 0)
        found = trained["item"].std()
        assert found == pytest.approx(deviation * np.sqrt(epochs - 1), rel=0.06)
        assert (trained["user.E"] == model["user.E"]).all() == (epochs == 1)


def test_rows_are_perturbed_as_in_the_whole_table() -> None:
    rng = np.random.default_rng(0)
    tables, streams = rng.normal(size=(3, 7, 4)).astype(np.float32), Streams.spawn(rng, 3)
    indptr, ids = np.array([0, 2, 2, 5]), np.array([1, 6, 0, 3, 5], dtype=np.int32)
    for noise in (ClippedNoise(0.5, 0.3), ClippedNoise(0.5, 0.3, is_normal=True)):
        whole, owners = noise(tables, streams), np.array([0, 0, 2, 2, 2])
        rows = noise.add_noise_to_rows(tables[owners, ids], streams, indptr, ids)
        np.testing.assert_array_equal(rows, whole[owners, ids])
