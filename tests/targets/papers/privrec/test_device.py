"""A PrivRec device: network, examples and training.

Sizes, initial weights and genres of the network; examples are all own items and negatives, by the
device's own randomness; training in batches agrees with one device at a time over whole tables.
"""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrec_auditor.targets.datasets.base import Attribute, Interactions
from fedrec_auditor.targets.papers.privrec import device
from fedrec_auditor.targets.papers.privrec.device import Devices, LocalTrainingSettings, Weights
from fedrec_auditor.targets.papers.privrec.network import (
    DeviceExamples,
    NetworkConfig,
    make_genre_flags,
)
from fedrec_auditor.targets.streams import Streams

DATA = Interactions.create(
    np.ones((3, 4)),
    attributes={"sex": Attribute(codes=np.array([0, 1, 0]), categories=("f", "m"))},
    genres=np.array([[1, 0, 1], [0, 0, 0], [0, 1, 0], [1, 1, 1]], dtype=bool),
    genre_names=("a", "b", "c"),
)


def test_genres_are_optional() -> None:
    np.testing.assert_array_equal(make_genre_flags(DATA), DATA.genres)
    assert make_genre_flags(Interactions.create(np.ones((3, 4)))).shape == (4, 0)


@pytest.mark.parametrize(
    ("ids", "side", "tables"), [(True, True, 3), (False, True, 2), (True, False, 1)]
)
def test_inputs_have_the_embedded_features(ids: bool, side: bool, tables: int) -> None:
    network = NetworkConfig(embedding_size=5, width=32, has_item_ids=ids, has_features=side)
    shapes = network.get_shapes(DATA)
    assert shapes["mlp1.weight"] == (5 * (tables + (2 if side else 0)), 32)  # of 3 genres, one each
    averaged = replace(network, has_mean_genres=True).get_shapes(DATA)
    assert averaged["mlp1.weight"] == (5 * tables, 32)
    assert ("item" in shapes) == ids
    assert ("genre" in shapes) == ("user.sex" in shapes) == side
    assert shapes["mlp4.weight"] == (8, 4)


def test_without_genres_an_items_number_is_its_feature() -> None:
    network = NetworkConfig(embedding_size=5, width=32, has_item_ids=False, has_features=True)
    for bare in (replace(DATA, genres=None), replace(DATA, genres=np.zeros((4, 0), dtype=bool))):
        assert (
            {"item", "user.sex"}
            <= set(network.get_shapes(bare))
            == set(network.get_shapes(bare)) - {"genre"}
        )


def test_first_weights_have_their_spread() -> None:
    """Spreads of thousands of normal draws are within 10%, except with probability below 1e-9."""
    network = NetworkConfig(embedding_size=64, width=64, has_item_ids=True, has_features=True)
    wide = Interactions.create(np.ones((2, 100)))
    model = network.draw_initial_model(wide, np.random.default_rng(0))
    assert model["item"].std() == pytest.approx(1 / 8, rel=0.1)
    assert model["mlp1.weight"].std() == pytest.approx(np.sqrt(2 / 64), rel=0.1)
    assert not model["mlp1.bias"].any()
    assert all(part.dtype == np.float32 for part in model.values())


@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.integers(1, 12), st.integers(1, 6))
def test_examples_are_all_positives_and_distinct_unmet_negatives(
    seed: int, users: int, items: int, negatives: int
) -> None:
    rng = np.random.default_rng(seed)
    data = Interactions.create((rng.random((users, items)) < rng.random()) * 1.0)
    drawn = DeviceExamples.draw_examples(data, Streams.spawn(rng, users), negatives=negatives)
    for user in range(users):
        held = np.flatnonzero(data.ratings.toarray()[user])
        n = len(held)
        assert drawn.n_positives[user] == n
        assert drawn.n_examples[user] == n + min(negatives * n, items - n)
        found = drawn.item_ids[user, : drawn.n_examples[user]]
        assert len(set(found.tolist())) == len(found)
        np.testing.assert_array_equal(found[:n], held)
        assert not set(found[n:].tolist()) & set(held.tolist())
        np.testing.assert_array_equal(
            np.flatnonzero(drawn.labels[user]), np.arange(n, dtype=np.int64)
        )


@given(st.integers(0, 2**32 - 1))
def test_devices_draw_the_same_in_any_batch(seed: int) -> None:
    rng = np.random.default_rng(seed)
    data = Interactions.create((rng.random((6, 20)) < 0.3) * 1.0)
    streams = Streams.spawn(rng, 6)
    drawn = DeviceExamples.draw_examples(data, streams, negatives=2)
    some = np.array([4, 1])
    alone = DeviceExamples.draw_examples(data.take_users(some), streams.take(some), negatives=2)
    for place, user in enumerate(some):
        size = drawn.n_examples[user]
        np.testing.assert_array_equal(alone.item_ids[place, :size], drawn.item_ids[user, :size])
        one = alone.draw_epoch_orders(streams.take(some), 3, 24)[place, :size]
        np.testing.assert_array_equal(one, drawn.draw_epoch_orders(streams, 3, 20)[user, :size])


def test_orders_are_permutations_that_differ_by_epoch_and_device() -> None:
    rng = np.random.default_rng(0)
    data = Interactions.create((rng.random((4, 40)) < 0.5) * 1.0)
    streams = Streams.spawn(rng, 4)
    drawn = DeviceExamples.draw_examples(data, streams, negatives=1)
    first, second = (drawn.draw_epoch_orders(streams, epoch, 48) for epoch in (0, 1))
    for orders in (first, second):
        np.testing.assert_array_equal(np.sort(orders, axis=1), np.tile(np.arange(48), (4, 1)))
        for user, size in enumerate(drawn.n_examples):
            assert orders[user, :size].max() == size - 1
    assert (first != second).any(axis=1).all()


def test_all_unmet_items_are_drawn_alike() -> None:
    """Each of 8 negatives is drawn with probability 1/4; 20,000 devices, 6 deviations."""
    table = np.zeros((20_000, 10))
    table[:, [3, 7]] = 1.0
    drawn = DeviceExamples.draw_examples(
        Interactions.create(table), Streams.spawn(np.random.default_rng(1), 20_000), negatives=1
    )
    counts = np.bincount(drawn.item_ids[:, 2:].ravel(), minlength=10)
    assert counts[3] == counts[7] == 0
    unmet = np.delete(counts, [3, 7])
    assert np.abs(unmet - 5000).max() < 6 * np.sqrt(20_000 * 0.25 * 0.75)


Model = dict[str, torch.Tensor]


def make_data(rng: np.random.Generator, users: int = 5, items: int = 11) -> Interactions:
    return Interactions.create(
        (rng.random((users, items)) < rng.choice([0.1, 0.4])) * 1.0,
        attributes={
            "gender": Attribute(codes=rng.integers(0, 2, users), categories=("F", "M")),
            "age": Attribute(codes=rng.integers(0, 3, users), categories=("a", "b", "c")),
        },
        genres=rng.random((items, 4)) < 0.4,
        genre_names=("w", "x", "y", "z"),
    )


def compute_score(model: Model, data: Interactions, user: int, items: torch.Tensor) -> torch.Tensor:
    """Equation 1 for one user, from concatenated embeddings."""
    parts = []
    for name, table in model.items():
        if name.startswith("user."):
            code = int(data.attributes[name[5:]].codes[user])
            parts.append(table[code].expand(len(items), -1))
    if "item" in model:
        parts.append(model["item"][items])
    if "genre" in model and data.genres is not None:
        flags = torch.tensor(data.genres, dtype=torch.float64)[items]
        each = flags[:, :, None] * model["genre"]
        if len(model["mlp1.weight"]) > sum(p.shape[1] for p in parts) + each.shape[2]:
            parts.append(each.flatten(1))
        else:
            parts.append(each.sum(1) / flags.sum(1, keepdim=True).clamp(min=1))
    hidden = torch.cat(parts, dim=1)
    for layer in range(1, 5):
        hidden = torch.relu(hidden @ model[f"mlp{layer}.weight"] + model[f"mlp{layer}.bias"])
    return hidden @ model["output.weight"] + model["output.bias"]


def compute_cross_entropy(
    model: Model, data: Interactions, user: int, items: torch.Tensor, labels: torch.Tensor
) -> torch.Tensor:
    if not len(items):
        return sum(table.sum() for table in model.values()) * 0.0
    z = compute_score(model, data, user, items)
    none = torch.zeros_like(z)  # ln sigma(z) = -ln(1 + e^-z), which is finite for every z
    return (labels * torch.logaddexp(none, -z) + (1 - labels) * torch.logaddexp(none, z)).mean()


def train_plainly(
    start: Model,
    data: Interactions,
    examples: DeviceExamples,
    streams: Streams,
    local: LocalTrainingSettings,
) -> list[Model]:
    """Algorithm 1, client by client, with the gradient of equation 7 (squared norm)."""
    ends, batch = [], min(4, data.n_items)
    width = -(-examples.item_ids.shape[1] // batch) * batch
    for user in range(data.n_users):
        model = {k: v.clone() for k, v in start.items()}
        for epoch in range(local.n_epochs):
            size = int(examples.n_examples[user])
            order = examples.draw_epoch_orders(streams, epoch, width)[user, :size]
            for at in range(0, size, batch):
                place = order[at : at + batch]
                items = torch.from_numpy(examples.item_ids[user, place])
                labels = torch.from_numpy(examples.labels[user, place]).double()
                live = {k: v.clone().requires_grad_() for k, v in model.items()}
                loss = compute_cross_entropy(live, data, user, items, labels)
                loss = loss + local.proximal_weight / 2 * sum(
                    ((live[k] - start[k]) ** 2).sum() for k in live
                )
                slope = torch.autograd.grad(loss, list(live.values()))
                model = {
                    k: (v - local.learning_rate * g).detach()
                    for (k, v), g in zip(live.items(), slope, strict=True)
                }
        ends.append(model)
    return ends


def setup(
    seed: int, *, ids: bool = True, side: bool = True
) -> tuple[Interactions, DeviceExamples, Streams, Devices, Model]:
    rng = np.random.default_rng(seed)
    data = make_data(rng)
    reads = {"has_item_ids": ids, "has_features": side, "has_mean_genres": seed % 2 == 1}
    network = NetworkConfig(embedding_size=3, width=8, **reads)
    broadcast = network.draw_initial_model(data, rng)
    for name in broadcast:  # without zeros, so that every bias counts
        broadcast[name] += rng.normal(size=broadcast[name].shape).astype(np.float32) * 0.3
    streams = Streams.spawn(rng, data.n_users)
    drawn = DeviceExamples.draw_examples(data, streams, negatives=2)
    order = np.argsort(-drawn.n_examples, kind="stable")
    data, streams, drawn = data.take_users(order), streams.take(order), drawn.select_devices(order)
    devices = Devices.from_broadcast(
        broadcast, data, drawn, streams, batch_size=4, device="cpu", dtype=torch.float64
    )
    model = {k: torch.tensor(v).double() for k, v in broadcast.items()}
    return data, drawn, streams, devices, model


def check_agreement(
    batched: Weights, whole: list[Model], data: Interactions, examples: DeviceExamples
) -> None:
    """The batch's results, stored by example and attribute, equal those of whole tables.

    To 1e-5: a prediction near certainty leaves few digits of 1 - sigma, which second derivatives
    enlarge (3e-7 was the largest difference in 520 cases).
    """
    close = functools.partial(torch.testing.assert_close, rtol=1e-5, atol=1e-6)
    for user, model in enumerate(whole):
        rows = [
            table[int(data.attributes[name[5:]].codes[user])]
            for name, table in model.items()
            if name.startswith("user.")
        ]
        if rows:
            close(batched["user"][user], torch.cat(rows))
        for name, value in model.items():
            if name == "item":
                size = int(examples.n_examples[user])
                items = torch.from_numpy(examples.item_ids[user, :size])
                close(batched["item"][user, :size], value[items])
            elif not name.startswith("user."):
                close(batched[name][user], value)


@settings(max_examples=12)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([(True, True), (False, True), (True, False)]),
    st.sampled_from([0.0, 0.7]),
)
def test_batched_training_is_training_one_by_one(
    seed: int, features: tuple[bool, bool], proximal: float
) -> None:
    ids, side = features
    data, examples, streams, devices, start = setup(seed, ids=ids, side=side)
    local = LocalTrainingSettings(n_epochs=2, learning_rate=0.4, proximal_weight=proximal)
    ends = train_plainly(start, data, examples, streams, local)
    check_agreement(devices.train(local), ends, data, examples)
    check_agreement(
        device.compute_reptile_update(devices, local),
        [{k: v - start[k] for k, v in end.items()} for end in ends],
        data,
        examples,
    )


@settings(max_examples=8)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 2]))
def test_the_meta_gradient_goes_through_the_support_steps(seed: int, steps: int) -> None:
    data, examples, streams, devices, start = setup(seed)
    local = LocalTrainingSettings(n_epochs=steps, learning_rate=0.4, proximal_weight=0.0)
    width = -(-examples.item_ids.shape[1] // 4) * 4
    expected = []
    for user in range(data.n_users):
        order = examples.draw_epoch_orders(streams, 0, width)[user, : examples.n_examples[user]]
        halves = order[: len(order) // 2], order[len(order) // 2 :]
        (s_items, s_labels), (q_items, q_labels) = (
            (
                torch.from_numpy(examples.item_ids[user, np.sort(half)]),
                torch.from_numpy(examples.labels[user, np.sort(half)]).double(),
            )
            for half in halves
        )
        live = {k: v.clone().requires_grad_() for k, v in start.items()}
        now = live
        for _ in range(steps):
            loss = compute_cross_entropy(now, data, user, s_items, s_labels)
            slope = torch.autograd.grad(loss, list(now.values()), create_graph=True)
            now = {k: v - 0.4 * g for (k, v), g in zip(now.items(), slope, strict=True)}
        loss = compute_cross_entropy(now, data, user, q_items, q_labels)
        found = torch.autograd.grad(loss, list(live.values()))
        expected.append({k: -g for k, g in zip(live, found, strict=True)})
    check_agreement(device.compute_maml_update(devices, local), expected, data, examples)


def test_scores_use_trained_rows_and_else_the_broadcast() -> None:
    data, examples, streams, devices, start = setup(11)
    local = LocalTrainingSettings(n_epochs=1, learning_rate=0.4, proximal_weight=0.0)
    ends = train_plainly(start, data, examples, streams, local)
    broadcast = {k: v.numpy() for k, v in start.items()}
    flags = torch.from_numpy(make_genre_flags(data)).double()
    found = device.score_all_items(devices, devices.train(local), broadcast, flags)
    every = torch.arange(data.n_items)
    for user, model in enumerate(ends):
        torch.testing.assert_close(
            found[user], compute_score(model, data, user, every), rtol=1e-6, atol=1e-6
        )


@pytest.mark.parametrize("learn", [device.compute_reptile_update, device.compute_maml_update])
def test_diverging_devices_change_nothing(learn: type[Weights] | object) -> None:
    _, examples, _, devices, _ = setup(5)
    assert (examples.n_examples > 0).sum() > 2
    local = LocalTrainingSettings(n_epochs=1, learning_rate=0.4, proximal_weight=0.0)
    whole = learn(devices, local)
    spoilt = {k: v.clone() for k, v in devices.weights.items()}
    spoilt["mlp1.weight"][1] = 1e200
    spoilt["mlp2.weight"][1] = 1e200
    broken = Devices(
        examples=devices.examples,
        streams=devices.streams,
        weights=spoilt,
        genre_flags=devices.genre_flags,
        labels=devices.labels,
        batch_size=devices.batch_size,
    )
    found = learn(broken, local)
    others = np.delete(np.arange(len(examples)), 1)
    for name, value in found.items():
        assert not value[1].any(), name
        torch.testing.assert_close(value[others], whole[name][others])


def test_scores_of_huge_weights_are_finite() -> None:
    data, _, _, devices, start = setup(3)
    weights = {k: v.float() for k, v in devices.weights.items()}
    for name in weights:
        if name.startswith("mlp"):
            weights[name] = torch.full_like(weights[name], 1e20)
    weights["mlp1.bias"] *= 1e10  # above all contributions of embeddings: no unit is dead
    broadcast = {k: v.numpy() for k, v in start.items()}
    found = device.score_all_items(
        devices, weights, broadcast, torch.from_numpy(make_genre_flags(data))
    )
    assert found.isfinite().all()
    assert found.abs().max() > 1e50
