"""Many devices' training at once against one device at a time, written out over whole tables."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrec_auditor.targets.datasets.base import Attribute, Interactions
from fedrec_auditor.targets.papers.privrec.systems.parts.device import (
    DeviceExamples,
    Devices,
    Network,
    ProximalTraining,
    Weights,
    all_scores,
    genre_flags,
    maml,
    reptile,
)
from fedrec_auditor.targets.streams import Streams

Model = dict[str, torch.Tensor]


def some_data(rng: np.random.Generator, users: int = 5, items: int = 11) -> Interactions:
    return Interactions.of(
        (rng.random((users, items)) < rng.choice([0.1, 0.4])) * 1.0,
        attributes={
            "gender": Attribute(codes=rng.integers(0, 2, users), categories=("F", "M")),
            "age": Attribute(codes=rng.integers(0, 3, users), categories=("a", "b", "c")),
        },
        genres=rng.random((items, 4)) < 0.4,
        genre_names=("w", "x", "y", "z"),
    )


def score(model: Model, data: Interactions, user: int, items: torch.Tensor) -> torch.Tensor:
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


def cross_entropy(
    model: Model, data: Interactions, user: int, items: torch.Tensor, labels: torch.Tensor
) -> torch.Tensor:
    if not len(items):
        return sum(table.sum() for table in model.values()) * 0.0
    z = score(model, data, user, items)
    none = torch.zeros_like(z)  # ln sigma(z) = -ln(1 + e^-z), which is finite for every z
    return (labels * torch.logaddexp(none, -z) + (1 - labels) * torch.logaddexp(none, z)).mean()


def plain_training(
    start: Model,
    data: Interactions,
    examples: DeviceExamples,
    streams: Streams,
    local: ProximalTraining,
) -> list[Model]:
    """Algorithm 1, client by client, with the gradient of equation 7 as it is (squared norm)."""
    ends, batch = [], min(4, data.n_items)
    width = -(-examples.items.shape[1] // batch) * batch
    for user in range(data.n_users):
        model = {k: v.clone() for k, v in start.items()}
        for epoch in range(local.epochs):
            size = int(examples.sizes[user])
            order = examples.orders(streams, epoch, width)[user, :size]
            for at in range(0, size, batch):
                place = order[at : at + batch]
                items = torch.from_numpy(examples.items[user, place])
                labels = torch.from_numpy(examples.labels[user, place]).double()
                live = {k: v.clone().requires_grad_() for k, v in model.items()}
                loss = cross_entropy(live, data, user, items, labels)
                loss = loss + local.proximal / 2 * sum(
                    ((live[k] - start[k]) ** 2).sum() for k in live
                )
                slope = torch.autograd.grad(loss, list(live.values()))
                model = {
                    k: (v - local.rate * g).detach()
                    for (k, v), g in zip(live.items(), slope, strict=True)
                }
        ends.append(model)
    return ends


def setup(
    seed: int, *, ids: bool = True, side: bool = True
) -> tuple[Interactions, DeviceExamples, Streams, Devices, Model]:
    rng = np.random.default_rng(seed)
    data = some_data(rng)
    network = Network(embedding=3, width=8, ids=ids, side=side, averaged=seed % 2 == 1)
    broadcast = network.initial(data, rng)
    for name in broadcast:  # no zeros: every bias must count
        broadcast[name] += rng.normal(size=broadcast[name].shape).astype(np.float32) * 0.3
    streams = Streams.spawn(rng, data.n_users)
    drawn = DeviceExamples.draw(data, streams, negatives=2)
    order = np.argsort(-drawn.sizes, kind="stable")
    data, streams, drawn = data.take(order), streams.take(order), drawn.take(order)
    devices = Devices.receive(
        broadcast, data, drawn, streams, batch=4, device="cpu", dtype=torch.float64
    )
    return (
        data,
        drawn,
        streams,
        devices,
        {k: torch.tensor(v).double() for k, v in broadcast.items()},
    )


def agrees(
    found: Weights, whole: list[Model], data: Interactions, examples: DeviceExamples
) -> None:
    """What the batch stores by example and attribute is what whole tables hold.

    To 1e-5: a prediction near certainty leaves few digits of 1 - sigma, which second derivatives
    enlarge (3e-7 was seen in 520 cases).
    """
    close = functools.partial(torch.testing.assert_close, rtol=1e-5, atol=1e-6)
    for user, model in enumerate(whole):
        rows = [
            table[int(data.attributes[name[5:]].codes[user])]
            for name, table in model.items()
            if name.startswith("user.")
        ]
        if rows:
            close(found["user"][user], torch.cat(rows))
        for name, value in model.items():
            if name == "item":
                size = int(examples.sizes[user])
                items = torch.from_numpy(examples.items[user, :size])
                close(found["item"][user, :size], value[items])
            elif not name.startswith("user."):
                close(found[name][user], value)


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
    local = ProximalTraining(epochs=2, rate=0.4, proximal=proximal)
    ends = plain_training(start, data, examples, streams, local)
    agrees(devices.train(local), ends, data, examples)
    agrees(
        reptile(devices, local),
        [{k: v - start[k] for k, v in end.items()} for end in ends],
        data,
        examples,
    )


@settings(max_examples=8)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 2]))
def test_the_meta_gradient_goes_through_the_support_steps(seed: int, steps: int) -> None:
    data, examples, streams, devices, start = setup(seed)
    local = ProximalTraining(epochs=steps, rate=0.4, proximal=0.0)
    width = -(-examples.items.shape[1] // 4) * 4
    expected = []
    for user in range(data.n_users):
        order = examples.orders(streams, 0, width)[user, : examples.sizes[user]]
        halves = order[: len(order) // 2], order[len(order) // 2 :]
        (s_items, s_labels), (q_items, q_labels) = (
            (
                torch.from_numpy(examples.items[user, np.sort(half)]),
                torch.from_numpy(examples.labels[user, np.sort(half)]).double(),
            )
            for half in halves
        )
        live = {k: v.clone().requires_grad_() for k, v in start.items()}
        now = live
        for _ in range(steps):
            loss = cross_entropy(now, data, user, s_items, s_labels)
            slope = torch.autograd.grad(loss, list(now.values()), create_graph=True)
            now = {k: v - 0.4 * g for (k, v), g in zip(now.items(), slope, strict=True)}
        loss = cross_entropy(now, data, user, q_items, q_labels)
        found = torch.autograd.grad(loss, list(live.values()))
        expected.append({k: -g for k, g in zip(live, found, strict=True)})
    agrees(maml(devices, local), expected, data, examples)


def test_scores_are_those_of_the_trained_table_and_of_the_broadcast_elsewhere() -> None:
    data, examples, streams, devices, start = setup(11)
    local = ProximalTraining(epochs=1, rate=0.4, proximal=0.0)
    ends = plain_training(start, data, examples, streams, local)
    broadcast = {k: v.numpy() for k, v in start.items()}
    flags = torch.from_numpy(genre_flags(data)).double()
    found = all_scores(devices, devices.train(local), broadcast, flags)
    every = torch.arange(data.n_items)
    for user, model in enumerate(ends):
        torch.testing.assert_close(
            found[user], score(model, data, user, every), rtol=1e-6, atol=1e-6
        )


@pytest.mark.parametrize("learn", [reptile, maml])
def test_a_device_that_diverges_changes_nothing_and_spoils_nobody(
    learn: type[Weights] | object,
) -> None:
    _, examples, _, devices, _ = setup(5)
    assert (examples.sizes > 0).sum() > 2
    local = ProximalTraining(epochs=1, rate=0.4, proximal=0.0)
    whole = learn(devices, local)
    spoilt = {k: v.clone() for k, v in devices.weights.items()}
    spoilt["mlp1.weight"][1] = 1e200
    spoilt["mlp2.weight"][1] = 1e200
    broken = Devices(
        examples=devices.examples,
        streams=devices.streams,
        weights=spoilt,
        flags=devices.flags,
        labels=devices.labels,
        batch=devices.batch,
    )
    found = learn(broken, local)
    others = np.delete(np.arange(len(examples)), 1)
    for name, value in found.items():
        assert not value[1].any(), name
        torch.testing.assert_close(value[others], whole[name][others])


def test_scores_of_huge_weights_are_numbers() -> None:
    data, _, _, devices, start = setup(3)
    weights = {k: v.float() for k, v in devices.weights.items()}
    for name in weights:
        if name.startswith("mlp"):
            weights[name] = torch.full_like(weights[name], 1e20)
    weights["mlp1.bias"] *= 1e10  # above all that the embeddings add: no unit is dead
    broadcast = {k: v.numpy() for k, v in start.items()}
    found = all_scores(devices, weights, broadcast, torch.from_numpy(genre_flags(data)))
    assert found.isfinite().all()
    assert found.abs().max() > 1e50
