"""Local training on PrivRec's devices: the loss and the gradient steps, in torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.papers.privrec import network
from fedrec_auditor.targets.papers.privrec.network import GENRE, ITEM, USER, DeviceExamples
from fedrec_auditor.targets.streams import Streams
from fedrec_auditor.targets.transcript import Broadcast

# Trained weights of n devices, as tensors by name; the first axis of every tensor is the device.
Weights = dict[str, Tensor]
"""Weights that devices train, all with a leading device axis.

"user" (n, du) has the user's attribute embeddings side by side. "item" (n, width, d) has the items
of the device's examples. After the first axis, "genre" (n, g, d) and layers are as broadcast.
"""


def compute_logits(weights: Mapping[str, Tensor], genre_flags: Tensor) -> Tensor:
    """Computes the logits of items with ``genre_flags`` on n devices, shape (n, items): scores
    before the sigmoid (equation 1).

    ``weights``: weights of the devices; "item" has the embeddings of the items to score.
    ``genre_flags``: whether an item has a genre, 1 or 0, shape (n, items, g), for g genres.

    A device's result does not depend on the other devices.
    """
    # The first layer is computed separately for user, item and genres, so that its products for the
    # user and for the genres are computed once per device. The output layer sums products of
    # numbers and does not multiply matrices, so that a device's result does not depend on the other
    # devices.
    first, user, rows = weights["mlp1.weight"], weights["user"], weights[ITEM]
    du, d = user.shape[1], rows.shape[2]
    hidden = weights["mlp1.bias"][:, None] + user[:, None] @ first[:, :du]
    hidden = hidden + rows @ first[:, du : du + d]
    if GENRE in weights:
        genre, last = weights[GENRE], first[:, du + d :]
        if last.shape[1] > genre.shape[2]:  # one input per genre
            parts = (genre[:, :, None] @ last.reshape(*genre.shape, last.shape[-1]))[:, :, 0]
        else:
            genre_flags = genre_flags / genre_flags.sum(dim=-1, keepdim=True).clamp(min=1)
            parts = genre @ last
        hidden = hidden + genre_flags @ parts
    for layer in range(2, network.N_HIDDEN_LAYERS + 1):
        hidden = torch.relu(hidden) @ weights[f"mlp{layer}.weight"]
        hidden = hidden + weights[f"mlp{layer}.bias"][:, None]
    out = (torch.relu(hidden) * weights["output.weight"][:, None]).sum(dim=-1)
    return out + weights["output.bias"][:, None]


def compute_loss(
    weights: Weights, genre_flags: Tensor, labels: Tensor, example_weights: Tensor
) -> Tensor:
    """Computes the loss of equation 2 (cross-entropy), summed over devices and over examples, from
    ``genre_flags`` and ``labels``.

    ``weights``: weights of n devices, by name.
    ``genre_flags``: whether an example's item has a genre, 1 or 0, shape (n, items, g), for g
        genres.
    ``labels``: labels of the examples, 0 or 1, shape (n, items).
    ``example_weights``: factor of each example's loss, shape (n, items).
    """
    logits = compute_logits(weights, genre_flags)
    return binary_cross_entropy_with_logits(logits, labels, example_weights, reduction="sum")


def compute_gradients(
    weights: Mapping[str, Tensor], genre_flags: Tensor, labels: Tensor, example_weights: Tensor
) -> Weights:
    """Computes the gradient of every device's loss with respect to the device's own weights.

    ``compute_loss`` explains the arguments. The result has tensors by name, without weights on
    which the loss does not depend.
    """
    # Each device has its own weights, so that the sum of all losses gives the gradient of each
    # device's loss.
    live = {name: value.requires_grad_() for name, value in weights.items()}
    loss = compute_loss(live, genre_flags, labels, example_weights)
    found = torch.autograd.grad(loss, list(live.values()), allow_unused=True)
    return {name: g for name, g in zip(live, found, strict=True) if g is not None}


# Local training of many PrivRec devices together, in torch: weights with a leading device axis.
#
# A device has an item at most once in one training, so that its rows of the item table are stored
# by example: (n, width, d) instead of one table per device. Devices of one batch are sorted by
# their number of examples, so that devices with a further minibatch are always the first ones. Each
# product is of one device's own matrices, whose shapes do not depend on the other devices. A
# device's result is therefore the same, bit for bit, whatever other devices are in the batch
# (measured on CPU, for layers of at least two units and minibatches of multiples of 16; up to
# rounding otherwise).


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalTrainingSettings:
    """Settings of the local training of devices, whose loss may have a proximal term.

    ``n_epochs``: number of epochs, E2 in the paper.
    ``learning_rate``: learning rate, alpha1 in the paper.
    ``proximal_weight``: weight mu of the proximal term, which keeps the weights close to the
        broadcast.
    """

    n_epochs: int
    learning_rate: float
    proximal_weight: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Devices:
    """State of n devices: their examples with features and labels, and their initial weights.

    Below, width is the largest number of examples of a device, padded to a multiple of
    ``batch_size``.

    ``examples``: examples of each device.
    ``streams``: one random stream per device.
    ``weights``: initial weights by name, with a leading device axis. Devices share the memory of
        each array, except for "user" and "item".
    ``genre_flags``: flags of the examples' genres, shape (n, width, g).
    ``labels``: labels of the examples, 0 or 1, shape (n, width).
    ``batch_size``: number of examples of a minibatch.
    """

    examples: DeviceExamples
    streams: Streams
    weights: Weights
    genre_flags: Tensor
    labels: Tensor
    batch_size: int

    @classmethod
    def from_broadcast(
        cls,
        broadcast: Broadcast,
        interactions: Interactions,
        examples: DeviceExamples,
        streams: Streams,
        *,
        batch_size: int,
        device: str,
        dtype: torch.dtype = torch.float32,
    ) -> Devices:
        """Creates the state of devices before the training, from the model that they received.

        ``broadcast``: the received model, as arrays by name.
        ``interactions``: data of the devices' users.
        ``examples``: examples of each device.
        ``streams``: random streams of the devices.
        ``batch_size``: number of examples of a minibatch, limited to the number of items (rounded
            up to a multiple of 16).
        ``device``: torch device of the tensors.
        ``dtype``: data type of the tensors.
        """
        # A device has each item at most once. A minibatch is therefore at most as large as the
        # catalogue, rounded up to a multiple of ``BATCH_SIZE_MULTIPLE``.
        n, width = examples.item_ids.shape
        divisor = network.BATCH_SIZE_MULTIPLE
        batch = min(batch_size, -(-interactions.n_items // divisor) * divisor)
        full = -(-width // batch) * batch
        items = torch.zeros((n, full), dtype=torch.long)
        items[:, :width] = torch.from_numpy(examples.item_ids)
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
        flags = torch.as_tensor(network.make_genre_flags(interactions), dtype=dtype, device=device)
        return cls(
            examples=examples,
            streams=streams,
            weights=weights,
            genre_flags=flags[items],
            labels=labels,
            batch_size=batch,
        )

    def train(self, local: LocalTrainingSettings) -> Weights:
        """Trains each device by SGD (Algorithm 1, lines 10 to 17), and returns its new weights.

        ``local``: settings of the training, such as the number of epochs.

        The loss is the mean of equation 2 over the minibatch plus mu/2 ||theta - theta0||^2, for
        all weights theta, the initial weights theta0, and mu = ``local.proximal_weight``. Equation
        7 prints the norm without the square.

        The result has tensors by name, with a leading device axis. A device whose weights overflow
        returns its initial weights.
        """
        # The norm without the square has no gradient at theta0, where every device starts. Its
        # source (FedProx) has the square, and only with the square is the factor 1/2 sensible: the
        # gradient is mu (theta - theta0).
        start = self.weights
        now = {name: value.clone() for name, value in start.items()}
        if not len(self.examples) or not local.n_epochs:
            return now
        size, width = self.batch_size, self.labels.shape[1]
        batches = -(-self.examples.n_examples // size)
        pull = local.learning_rate * local.proximal_weight
        where = self.labels.device
        sizes = torch.as_tensor(self.examples.n_examples, device=where)
        for epoch in range(local.n_epochs):
            drawn = self.examples.draw_epoch_orders(self.streams, epoch, width)
            orders = torch.as_tensor(drawn, device=where)
            for number in range(int(batches.max(initial=0))):
                active = int((batches > number).sum())  # number of devices that have this minibatch
                place = orders[:active, number * size : (number + 1) * size]
                device = torch.arange(active, device=where)[:, None]
                positions = number * size + torch.arange(place.shape[1], device=where)
                weight = (positions < sizes[:active, None]).to(self.labels.dtype)
                weight /= weight.sum(dim=1, keepdim=True)
                live = {k: v[:active].detach() for k, v in now.items() if k != ITEM}
                live[ITEM] = now[ITEM][device, place]
                flags, labels = self.genre_flags[device, place], self.labels[device, place]
                slope = compute_gradients(live, flags, labels, weight)
                if pull:
                    for name, value in now.items():
                        value[:active].lerp_(start[name][:active], pull)
                for name, value in slope.items():
                    if name == ITEM:
                        now[ITEM][device, place] -= local.learning_rate * value
                    else:
                        now[name][:active].sub_(value, alpha=local.learning_rate)
        diverged = ~has_finite_weights(now)
        for name, value in now.items():
            value[diverged] = start[name][diverged]
        return now


def compute_reptile_update(devices: Devices, local: LocalTrainingSettings) -> Weights:
    """Trains each device, and returns the change of its weights (line 18 of Algorithm 1).

    The result has tensors by name, with a leading device axis. ``local`` are the settings of the
    training.
    """
    return {name: v - devices.weights[name] for name, v in devices.train(local).items()}


def compute_maml_update(devices: Devices, local: LocalTrainingSettings) -> Weights:
    """Computes the negative MAML meta-gradient of each device (equations 4 and 5).

    ``local``: settings of the local steps.

    A device takes ``local.n_epochs`` steps of full gradients on its support set, a random half of
    its examples. The other half is the query set. The meta-gradient is the gradient of the mean
    query loss after the steps, with respect to the weights before the steps (second order).

    The result has tensors by name, with a leading device axis. It is 0 for a device whose gradient
    overflows.
    """
    # The size of the support set is rounded down. Gradients are computed in blocks of
    # ``batch_size`` examples; padding adds exact zeros.
    size, width = devices.batch_size, devices.labels.shape[1]
    start = {name: v.clone().requires_grad_() for name, v in devices.weights.items()}
    if not width:
        return {name: torch.zeros_like(v) for name, v in start.items()}
    orders = torch.as_tensor(devices.examples.draw_epoch_orders(devices.streams, 0, width))
    place = torch.argsort(orders, dim=1).to(devices.labels.device)  # an example's place in order
    sizes = torch.as_tensor(devices.examples.n_examples, device=place.device)[:, None]
    support = (place < sizes // 2).to(devices.labels.dtype)
    query = (place < sizes).to(devices.labels.dtype) - support

    # Sum over devices of the mean loss of the ``chosen`` examples (0 or 1).
    def sum_losses(weights: Weights, chosen: Tensor) -> Tensor:
        mean = chosen / chosen.sum(dim=1, keepdim=True).clamp(min=1.0)
        parts = []
        for at in range(0, width, size):
            block = slice(at, at + size)
            live = weights | {ITEM: weights[ITEM][:, block]}
            flags, labels = devices.genre_flags[:, block], devices.labels[:, block]
            parts.append(compute_loss(live, flags, labels, mean[:, block]))
        return torch.stack(parts).sum()

    now = start
    for _ in range(local.n_epochs):
        slope = torch.autograd.grad(sum_losses(now, support), list(now.values()), create_graph=True)
        now = {k: v - local.learning_rate * g for (k, v), g in zip(now.items(), slope, strict=True)}
    found = torch.autograd.grad(sum_losses(now, query), list(start.values()))
    change = {name: -g for name, g in zip(start, found, strict=True)}
    diverged = ~has_finite_weights(change)
    for value in change.values():
        value[diverged] = 0.0
    return change


def score_all_items(
    devices: Devices, weights: Weights, broadcast: Broadcast, genre_flags: Tensor
) -> Tensor:
    """Computes the scores of all items on each device, shape (n, n_items).

    ``devices``: the n devices, with their training examples.
    ``weights``: trained weights of the devices, by name.
    ``broadcast``: the broadcast model, whose embeddings are used for items on which a device has
        not trained.
    ``genre_flags``: whether an item has a genre, 1 or 0, shape (n_items, g), for g genres.
    """
    # Scores that overflow in single precision are computed in double precision.
    n, rows = len(devices.examples), weights[ITEM]
    table = torch.zeros((genre_flags.shape[0], rows.shape[2]), dtype=rows.dtype, device=rows.device)
    if ITEM in broadcast:
        table = torch.as_tensor(np.array(broadcast[ITEM]), dtype=rows.dtype, device=rows.device)
    every = table.expand(n, *table.shape).clone()
    valid = np.arange(devices.examples.item_ids.shape[1]) < devices.examples.n_examples[:, None]
    index = np.nonzero(valid)
    items = torch.as_tensor(devices.examples.item_ids[index])
    device, example = (torch.as_tensor(axis) for axis in index)
    every[device, items] = rows[device, example]
    whole, kinds = weights | {ITEM: every}, genre_flags.expand(n, *genre_flags.shape)
    with torch.no_grad():
        found = compute_logits(whole, kinds)
        if not found.isfinite().all():  # products of five huge single-precision weights fit
            found = compute_logits({k: v.double() for k, v in whole.items()}, kinds.double())
    return found


def has_finite_weights(weights: Weights) -> Tensor:
    """Checks each device's weights; returns whether they are all finite, shape (n,)."""
    each = [v.isfinite().reshape(len(v), v.numel() // len(v)).all(dim=1) for v in weights.values()]
    return torch.stack(each).all(dim=0)
