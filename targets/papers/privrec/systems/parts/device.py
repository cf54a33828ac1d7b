"""Local training of many PrivRec devices at once, in torch: weights with a leading device axis.

A device never meets an item twice in one training, so its rows of the item table are stored by
example: (n, width, d) instead of a table a device. Devices of one batch differ in their number of
examples; they are sorted by it, so that those with a minibatch left are always the first ones.
Each product is of one device's own matrices, of shapes that do not depend on the other devices: a
device's result is the same, bit for bit, in any company (measured on CPU, for layers of two units
and more and minibatches of multiples of 16; to rounding otherwise).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.papers.privrec.systems.parts.examples import LANES, DeviceExamples
from fedrec_auditor.targets.papers.privrec.systems.parts.loss import (
    Weights,
    gradients,
    logits,
    loss,
)
from fedrec_auditor.targets.papers.privrec.systems.parts.network import ITEM, USER, genre_flags
from fedrec_auditor.targets.streams import Streams
from fedrec_auditor.targets.transcript import Broadcast


@dataclass(frozen=True, slots=True, kw_only=True)
class ProximalTraining:
    """How a device trains: ``epochs`` E2, ``rate`` alpha1, ``proximal`` mu."""

    epochs: int
    rate: float
    proximal: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Devices:
    """n devices: their examples, features of these, and the weights that they start from.

    ``weights`` are the broadcast's, as views without memory of their own but for "user" and
    "item". ``flags`` (n, width, g) are the genres of the examples, ``labels`` (n, width).
    A minibatch has ``batch`` examples, of which ``width`` is a multiple.
    """

    examples: DeviceExamples
    streams: Streams
    weights: Weights
    flags: Tensor
    labels: Tensor
    batch: int

    @classmethod
    def receive(
        cls,
        broadcast: Broadcast,
        interactions: Interactions,
        examples: DeviceExamples,
        streams: Streams,
        *,
        batch: int,
        device: str,
        dtype: torch.dtype = torch.float32,
    ) -> Devices:
        """Devices that hold ``interactions`` and were sent ``broadcast``.

        No minibatch is larger than the catalogue takes: a device has each item once at most.
        """
        n, width = examples.items.shape
        batch = min(batch, -(-interactions.n_items // LANES) * LANES)
        full = -(-width // batch) * batch
        items = torch.zeros((n, full), dtype=torch.long)
        items[:, :width] = torch.from_numpy(examples.items)
        labels = torch.zeros((n, full), dtype=dtype)
        labels[:, :width] = torch.from_numpy(examples.labels)
        items, labels = items.to(device), labels.to(device)
        weights, user = {}, []
        for name, part in broadcast.items():
            values = torch.as_tensor(np.array(part), dtype=dtype, device=device)
            if name.startswith(USER):
                codes = interactions.attributes[name.removeprefix(USER)].codes
                user.append(values[torch.as_tensor(codes, device=device)])
            elif name == ITEM:
                weights[ITEM] = values[items]
            else:
                weights[name] = values.expand(n, *values.shape)
        weights["user"] = torch.cat([torch.zeros((n, 0), dtype=dtype, device=device), *user], dim=1)
        if ITEM not in weights:
            weights[ITEM] = torch.zeros((n, full, 0), dtype=dtype, device=device)
        flags = torch.as_tensor(genre_flags(interactions), dtype=dtype, device=device)
        return cls(
            examples=examples,
            streams=streams,
            weights=weights,
            flags=flags[items],
            labels=labels,
            batch=batch,
        )

    def train(self, local: ProximalTraining) -> Weights:
        """Algorithm 1, lines 10 to 17: E2 epochs of plain SGD on L', minibatch by minibatch.

        A device whose weights leave the range of numbers on the way ends where it began.

        L' is the mean of equation 2 over the minibatch plus mu/2 ||theta - theta0||^2 over all
        weights. Equation 7 prints the norm without the square, which has no gradient at theta0,
        where every device starts; its source (FedProx) has the square, and only then does the
        factor 1/2 make sense: its gradient is mu (theta - theta0).
        """
        start = self.weights
        now = {name: value.clone() for name, value in start.items()}
        if not len(self.examples) or not local.epochs:
            return now
        size, width = self.batch, self.labels.shape[1]
        batches = -(-self.examples.sizes // size)
        pull = local.rate * local.proximal
        where = self.labels.device
        sizes = torch.as_tensor(self.examples.sizes, device=where)
        for epoch in range(local.epochs):
            orders = torch.as_tensor(self.examples.orders(self.streams, epoch, width), device=where)
            for number in range(int(batches.max(initial=0))):
                left = int((batches > number).sum())  # the first ``left`` devices
                place = orders[:left, number * size : (number + 1) * size]
                device = torch.arange(left, device=where)[:, None]
                positions = number * size + torch.arange(place.shape[1], device=where)
                weight = (positions < sizes[:left, None]).to(self.labels.dtype)
                weight /= weight.sum(dim=1, keepdim=True)
                live = {k: v[:left].detach() for k, v in now.items() if k != ITEM}
                live[ITEM] = now[ITEM][device, place]
                slope = gradients(
                    live, self.flags[device, place], self.labels[device, place], weight
                )
                if pull:
                    for name, value in now.items():
                        value[:left].lerp_(start[name][:left], pull)
                for name, value in slope.items():
                    if name == ITEM:
                        now[ITEM][device, place] = now[ITEM][device, place] - local.rate * value
                    else:
                        now[name][:left].sub_(value, alpha=local.rate)
        diverged = ~finite(now)
        for name, value in now.items():
            value[diverged] = start[name][diverged]
        return now


def reptile(devices: Devices, local: ProximalTraining) -> Weights:
    """Line 18 of Algorithm 1: how far local training took a device, theta - theta0."""
    return {name: v - devices.weights[name] for name, v in devices.train(local).items()}


def maml(devices: Devices, local: ProximalTraining) -> Weights:
    """Equations 4 and 5: minus the gradient, by theta0, of the query loss after the support steps.

    A random half of a device's examples (the smaller one, if odd) is the support set, on which
    ``local.epochs`` steps of full gradients are taken; the other half is the query set. The
    gradient goes through these steps (second order). Losses are means. A product takes
    ``batch`` examples at a time, of which padding adds exact zeros. A device whose gradient
    leaves the range of numbers returns none.
    """
    size, width = devices.batch, devices.labels.shape[1]
    start = {name: v.clone().requires_grad_() for name, v in devices.weights.items()}
    if not width:
        return {name: torch.zeros_like(v) for name, v in start.items()}
    orders = torch.as_tensor(devices.examples.orders(devices.streams, 0, width))
    place = torch.argsort(orders, dim=1).to(devices.labels.device)  # of an example in the order
    sizes = torch.as_tensor(devices.examples.sizes, device=place.device)[:, None]
    support = (place < sizes // 2).to(devices.labels.dtype)
    query = (place < sizes).to(devices.labels.dtype) - support

    def total(weights: Weights, chosen: Tensor) -> Tensor:
        mean = chosen / chosen.sum(dim=1, keepdim=True).clamp(min=1.0)
        parts = []
        for at in range(0, width, size):
            block = slice(at, at + size)
            live = weights | {ITEM: weights[ITEM][:, block]}
            flags, labels = devices.flags[:, block], devices.labels[:, block]
            parts.append(loss(live, flags, labels, mean[:, block]))
        return torch.stack(parts).sum()

    now = start
    for _ in range(local.epochs):
        slope = torch.autograd.grad(total(now, support), list(now.values()), create_graph=True)
        now = {k: v - local.rate * g for (k, v), g in zip(now.items(), slope, strict=True)}
    found = torch.autograd.grad(total(now, query), list(start.values()))
    change = {name: -g for name, g in zip(start, found, strict=True)}
    diverged = ~finite(change)
    for value in change.values():
        value[diverged] = 0.0
    return change


def all_scores(devices: Devices, weights: Weights, broadcast: Broadcast, flags: Tensor) -> Tensor:
    """Scores of all items, (n, n_items), by trained ``weights``; ``flags`` (n_items, g).

    Rows of items that a device has not trained are those of the broadcast. In double precision
    where single does not hold the scores.
    """
    n, rows = len(devices.examples), weights[ITEM]
    table = torch.zeros((flags.shape[0], rows.shape[2]), dtype=rows.dtype, device=rows.device)
    if ITEM in broadcast:
        table = torch.as_tensor(np.array(broadcast[ITEM]), dtype=rows.dtype, device=rows.device)
    every = table.expand(n, *table.shape).clone()
    valid = np.arange(devices.examples.items.shape[1]) < devices.examples.sizes[:, None]
    device, example = np.nonzero(valid)
    items = devices.examples.items[device, example]
    every[torch.as_tensor(device), torch.as_tensor(items)] = rows[
        torch.as_tensor(device), torch.as_tensor(example)
    ]
    whole, kinds = weights | {ITEM: every}, flags.expand(n, *flags.shape)
    with torch.no_grad():
        found = logits(whole, kinds)
        if not found.isfinite().all():  # huge weights are still weights: five layers of them fit
            found = logits({k: v.double() for k, v in whole.items()}, kinds.double())
    return found


def finite(weights: Weights) -> Tensor:
    """Which devices' weights are all finite, (n,)."""
    each = [v.isfinite().reshape(len(v), v.numel() // len(v)).all(dim=1) for v in weights.values()]
    return torch.stack(each).all(dim=0)
