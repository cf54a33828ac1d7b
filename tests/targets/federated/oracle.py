"""Slow reference: one device and one minibatch after another, by autograd in float64.

The reference uses the random draws of the fast training; ``test_local_training`` checks the draws.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import binary_cross_entropy_with_logits

from fedrec_auditor.targets.federated.base import Clients, LocalSettings
from fedrec_auditor.targets.federated.local_training import (
    Examples,
    draw_examples,
    draw_linear_term,
    draw_row_linear_term,
    draw_visit_orders,
)

Parameters = dict[str, torch.Tensor]


def gcn(p: Parameters, x: torch.Tensor, own: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    neighbours = (own @ p["user.W1"].T).mean(0)
    user = torch.relu(p["user.W2"] @ (p["user.E"] @ x + neighbours) + p["user.b"])
    return mlp(p, user, z)


def ncf(p: Parameters, x: torch.Tensor, own: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    return mlp(p, p["user.E"] @ x, z)


def mf(p: Parameters, x: torch.Tensor, own: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    return z @ (p["user.E"] @ x)


def light_gcn(p: Parameters, x: torch.Tensor, own: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    return z @ (p["user.E"] @ x + own.mean(0))


def mlp(p: Parameters, user: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    both = torch.cat([user.expand(len(z), -1), z], dim=1)
    hidden = torch.relu(both @ p["mlp1.weight"].T + p["mlp1.bias"])
    return (hidden @ p["mlp2.weight"].T + p["mlp2.bias"])[:, 0]


LOGITS = {"gcn": gcn, "ncf": ncf, "mf": mf, "light-gcn": light_gcn}


def train_one(
    name: str,
    broadcast: dict[str, NDArray[np.float32]],
    clients: Clients,
    user: int,
    local: LocalSettings,
    squared: bool = False,
) -> dict[str, NDArray[np.float64]]:
    """The whole model of one device after its local training."""
    me = np.array([user])
    streams, interactions = clients.streams.take(me), clients.interactions.take_users(me)
    examples = draw_examples(interactions, streams, local.negatives)
    own = torch.tensor(interactions.ratings.indices.astype(np.int64))
    p = {key: torch.tensor(value, dtype=torch.float64) for key, value in broadcast.items()}
    if not len(own) and not local.epoch_noise:
        return {key: value.numpy() for key, value in p.items()}
    ids = torch.tensor(examples.item_ids.astype(np.int64))
    label = torch.tensor(examples.is_positive, dtype=torch.float64)
    x = torch.tensor(clients.features[user], dtype=torch.float64)
    linear = linear_terms(broadcast, streams, local, examples)
    shapes = {key: value.shape for key, value in broadcast.items()}
    kind = torch.optim.Adam if local.optimizer == "adam" else torch.optim.SGD
    optimizer = kind([value.requires_grad_() for value in p.values()], lr=local.learning_rate)
    for epoch in range(local.epochs):
        order = draw_visit_orders(streams, examples.n_examples, epoch)[0].astype(np.int64)
        for start in range(0, len(order), local.batch):
            now = torch.tensor(order[start : start + local.batch])
            optimizer.zero_grad()
            logits = LOGITS[name](p, x, p["item"][own], p["item"][ids[now]])
            if squared:
                loss = ((label[now] - logits) ** 2).sum()
            else:
                loss = binary_cross_entropy_with_logits(logits, label[now], reduction="sum")
            for key, draws in linear.items():
                loss = loss + (draws * p[key]).sum() * len(now) / len(order)
            loss.backward()
            optimizer.step()
        if epoch < local.epochs - 1:
            for place, key in enumerate(shapes):
                if key in local.epoch_noise:
                    drawn = streams.derive((1 << 32) + epoch).derive(place)
                    noisy = local.epoch_noise[key](p[key].detach().numpy()[None], drawn)[0]
                    p[key].data.copy_(torch.tensor(noisy))
    return {key: value.detach().numpy() for key, value in p.items()}


def linear_terms(
    broadcast: dict[str, NDArray[np.float32]],
    streams: object,
    local: LocalSettings,
    examples: Examples,
) -> Parameters:
    shapes = {key: value.shape for key, value in broadcast.items()}
    linear = {
        key: torch.tensor(draw_linear_term(streams, local, shapes, key)[0], dtype=torch.float64)
        for key in local.linear_term_scales
        if key != "item"
    }
    if "item" in local.linear_term_scales:
        rows = torch.zeros(shapes["item"], dtype=torch.float64)
        rows[examples.item_ids.astype(np.int64)] = torch.tensor(
            draw_row_linear_term(streams, local, shapes, examples), dtype=torch.float64
        )
        linear["item"] = rows
    return linear
