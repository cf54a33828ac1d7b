"""Equations 1 and 2 for many devices at once, in torch, and their gradients."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from fedrec_auditor.targets.papers.privrec.systems.parts.network import GENRE, ITEM, LAYERS

Weights = dict[str, Tensor]
"""What a device trains, all with a leading device axis.

"user" (n, du), the embeddings of its own attributes side by side; "item" (n, width, d), those of
its examples; "genre" (n, g, d) and the layers as they are broadcast.
"""


def logits(weights: Mapping[str, Tensor], flags: Tensor) -> Tensor:
    """Scores before the sigmoid of every item of ``weights``, (n, items): equation 1.

    The first layer is taken apart by what it reads, so that a user's part is computed once and a
    genre's once a device. The last product is a sum, which is the same in any company.
    """
    first, user, rows = weights["mlp1.weight"], weights["user"], weights[ITEM]
    du, d = user.shape[1], rows.shape[2]
    hidden = weights["mlp1.bias"][:, None] + user[:, None] @ first[:, :du]
    hidden = hidden + rows @ first[:, du : du + d]
    if GENRE in weights:
        genre, last = weights[GENRE], first[:, du + d :]
        if last.shape[1] > genre.shape[2]:  # an input a genre
            parts = (genre[:, :, None] @ last.reshape(*genre.shape, -1))[:, :, 0]
        else:
            flags = flags / flags.sum(dim=-1, keepdim=True).clamp(min=1)
            parts = genre @ last
        hidden = hidden + flags @ parts
    for layer in range(2, LAYERS + 1):
        hidden = torch.relu(hidden) @ weights[f"mlp{layer}.weight"]
        hidden = hidden + weights[f"mlp{layer}.bias"][:, None]
    out = (torch.relu(hidden) * weights["output.weight"][:, None]).sum(dim=-1)
    return out + weights["output.bias"][:, None]


def loss(weights: Mapping[str, Tensor], flags: Tensor, labels: Tensor, weight: Tensor) -> Tensor:
    """Equation 2 with ``weight`` (n, items) for each example, summed over devices."""
    return binary_cross_entropy_with_logits(
        logits(weights, flags), labels, weight=weight, reduction="sum"
    )


def gradients(
    weights: Mapping[str, Tensor], flags: Tensor, labels: Tensor, weight: Tensor
) -> Weights:
    """Gradient of every device's loss by its own weights: devices do not mix in the sum."""
    live = {name: value.requires_grad_() for name, value in weights.items()}
    found = torch.autograd.grad(
        loss(live, flags, labels, weight), list(live.values()), allow_unused=True
    )
    return {name: g for name, g in zip(live, found, strict=True) if g is not None}
