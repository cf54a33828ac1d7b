"""Local training of many devices at once as batched matrix products, in torch, on any device.

Devices of like size train side by side, each with its own weights; padding is masked by a zero
gradient. Gradients are written out. Two things are kept lazily, exactly up to rounding: what every
step adds to all of a device's own rows (the gradient through the neighbour mean) is one vector
``shift`` a device, and the linear term of the touched rows is a coefficient ``spent`` of its draws.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fedrec_auditor.targets.compute import Compute, torch_threads
from fedrec_auditor.targets.learners.parts.minibatches import draw_order
from fedrec_auditor.targets.learners.parts.work import Neighbours, Work, named

_NUMBERS = {"cpu": 1 << 21, "cuda": 1 << 28}
"""Padded item rows of a block, in numbers."""


def train_batched(work: Work, compute: Compute) -> None:
    """Trains all devices of ``work`` in place, block by block."""
    device = torch.device(compute.device)
    bound = _NUMBERS.get(device.type, _NUMBERS["cpu"]) // work.dimension
    with torch_threads(compute.threads), torch.no_grad():
        for block in work.blocks(bound):
            _Block(work, block, device).train()


class _Block:
    """The state of a block of devices; ``train`` runs all epochs and writes the results back."""

    def __init__(self, work: Work, block: NDArray[np.int64], device: torch.device) -> None:
        self.work, self.block, self.device = work, block, device
        self.local = work.local
        self.streams, self.sizes = work.streams.take(block), work.examples.sizes[block]
        n, width, d = len(block), int(self.sizes.max()), work.dimension
        starts = work.examples.indptr[block]
        self.real = np.arange(width) < self.sizes[:, None]
        self.place = np.where(self.real, starts[:, None] + np.arange(width), 0)

        padded = work.rows[self.place]
        padded[~self.real] = 0  # whatever else is there, it is another device's
        self.z = self._tensor(padded).view(n * width, d)
        label = self._tensor(self.real & work.examples.positive[self.place])
        self.held = label.sum(1, keepdim=True)
        self.label, self.own = label.view(-1), (label / self.held).view(-1)
        self.size = self._tensor(self.sizes)
        self.base = (torch.arange(n, device=device) * width)[:, None]
        self.x = self._tensor(work.features[block])
        self.theta = self._tensor(work.theta[block])
        self.p = named(self.theta, work.shapes)
        self.halves: tuple[torch.Tensor, ...] = ()
        if self.work.deep and self.local.optimizer == "sgd":  # contiguous, for matrix products
            self.halves = tuple(part.contiguous() for part in self.p["mlp1.weight"].split(d, dim=2))
        self.linear_term = self._tensor(work.linear_term[block]) if len(work.linear_term) else None
        self.linear_halves: tuple[torch.Tensor, ...] = ()
        if self.linear_term is not None and self.halves:
            self.linear_halves = named(self.linear_term, work.shapes)["mlp1.weight"].split(d, dim=2)
        self.linear_rows = None
        if len(work.linear_rows):
            draws = work.linear_rows[self.place]
            draws[~self.real] = 0
            self.linear_rows = self._tensor(draws).view(n * width, d)

    def _tensor(self, array: NDArray[Any]) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.device, torch.float32)

    def train(self) -> None:
        """All epochs of all devices of the block."""
        n, d = len(self.block), self.work.dimension
        width, batch = int(self.sizes.max()), self.local.batch
        weight = self.own.view(n, 1, width)
        self.mean = torch.bmm(weight, self.z.view(n, width, d))[:, 0]
        self.shift = torch.zeros_like(self.mean)
        self.spent = torch.zeros_like(self.size)
        if self.linear_rows is not None:
            self.mean_linear = torch.bmm(weight, self.linear_rows.view(n, width, d))[:, 0]
        for epoch in range(self.local.epochs):
            order = torch.from_numpy(draw_order(self.streams, self.sizes, epoch)).to(self.device)
            for start in range(0, width, batch):
                end = min(start + batch, width)
                real = torch.arange(start, end, device=self.device) < self.size[:, None]
                self._step(order[:, start:end] + self.base, real.to(torch.float32))
        self._finish(n, width, d)

    def _adam_step(self, index: torch.Tensor, real: torch.Tensor) -> None:
        p, deep = self.p, self.work.deep
        n, b = index.shape
        d = self.work.dimension
        width = self.z.shape[0] // n
        if not hasattr(self, "t"):
            self.t = 0
            self.grad = torch.zeros_like(self.theta); self.g = named(self.grad, self.work.shapes)
            self.m, self.v = torch.zeros_like(self.theta), torch.zeros_like(self.theta)
            self.gz, self.mz, self.vz = (torch.zeros_like(self.z) for _ in range(3))
        g = self.g
        flat = index.reshape(-1)
        label, own = self.label[flat].view(n, b), self.own[flat].view(n, b)
        z = self.z[flat].view(n, b, d)
        self.mean = torch.bmm(self.own.view(n, 1, width), self.z.view(n, width, d))[:, 0]
        user, inner = self._user()
        if deep:
            w = p["mlp1.weight"]
            from_user, from_item = w[:, :, :d], w[:, :, d:]
            hidden = torch.bmm(z, from_item.transpose(1, 2))
            hidden.add_((_mv(from_user, user) + p["mlp1.bias"])[:, None]).relu_()
            last = p["mlp2.weight"][:, 0]
            logit = _mv(hidden, last) + p["mlp2.bias"]
            slope = (logit.sigmoid() - label) * real
            d_first = (slope[:, :, None] * last[:, None]).mul_(hidden > 0)
            d_sum = d_first.sum(1)
            dz = torch.bmm(d_first, from_item)
            d_user = _mv(from_user.transpose(1, 2), d_sum)
            g["mlp2.weight"][:, 0] = _mv(hidden.transpose(1, 2), slope)
            g["mlp2.bias"][:] = slope.sum(1, keepdim=True)
            g["mlp1.weight"][:, :, d:] = torch.bmm(d_first.transpose(1, 2), z)
            g["mlp1.weight"][:, :, :d] = d_sum[:, :, None] * user[:, None]
            g["mlp1.bias"][:] = d_sum
        else:
            slope = _mv(z, user).sigmoid_().sub_(label).mul_(real)
            dz = slope[:, :, None] * user[:, None]
            d_user = _mv(z.transpose(1, 2), slope)
        d_mean = None if self.work.neighbours is Neighbours.IGNORED else d_user
        if self.work.neighbours is Neighbours.CONVOLVED:
            d_out = d_user * (user > 0)
            d_user = _mv(p["user.W2"].transpose(1, 2), d_out)
            d_mean = _mv(p["user.W1"].transpose(1, 2), d_user)
            g["user.W2"][:] = d_out[:, :, None] * inner[:, None]
            g["user.b"][:] = d_out
            g["user.W1"][:] = d_user[:, :, None] * self.mean[:, None]
        g["user.E"][:] = d_user[:, :, None] * self.x[:, None]
        self.gz.zero_()
        self.gz[flat] = dz.view(n * b, d) * real.reshape(-1, 1)
        if d_mean is not None:
            self.gz.view(n, width, d).add_(self.own.view(n, width, 1) * d_mean[:, None])
        part = real.sum(1) / self.size
        if self.linear_term is not None:
            self.grad += part[:, None] * self.linear_term
        if self.linear_rows is not None:
            self.gz.view(n, width, d).add_(part[:, None, None] * self.linear_rows.view(n, width, d))
        # devices whose examples are exhausted take no step
        active = real.sum(1) > 0
        self.count = getattr(self, "count", torch.zeros(n)) + active
        rate = self.local.learning_rate
        c1 = 1 - 0.9 ** self.count.clamp(min=1); c2 = (1 - 0.999 ** self.count.clamp(min=1)).sqrt()
        for th, gr, m, v, shape in ((self.theta, self.grad, self.m, self.v, (n, 1)), (self.z.view(n, width, d), self.gz.view(n, width, d), self.mz.view(n, width, d), self.vz.view(n, width, d), (n, 1, 1))):
            a = active.view(shape).float()
            m.add_(a * (gr - m) * 0.1)
            v.add_(a * (gr * gr - v) * 0.001)
            th.sub_(a * (rate / c1).view(shape) * m / (v.sqrt() / c2.view(shape) + 1e-8))

    def _step(self, index: torch.Tensor, real: torch.Tensor) -> None:
        """One minibatch of every device: ``index`` (n, B) rows of z, ``real`` masks padding."""
        if self.local.optimizer == "adam":
            return self._adam_step(index, real)
        p, rate, deep = self.p, self.local.learning_rate, self.work.deep
        n, b = index.shape
        flat, d = index.reshape(-1), self.work.dimension
        label, own = self.label[flat].view(n, b), self.own[flat].view(n, b)
        rows = self.z[flat].view(n, b, d)
        z = torch.addcmul(rows, label[:, :, None], self.shift[:, None])
        if self.linear_rows is not None:
            z = z - (rate * self.spent)[:, None, None] * self.linear_rows[flat].view(n, b, d)
        user, inner = self._user()
        if deep:
            from_user, from_item = self.halves
            hidden = torch.bmm(z, from_item.transpose(1, 2))
            hidden.add_((_mv(from_user, user) + p["mlp1.bias"])[:, None]).relu_()
            last = p["mlp2.weight"][:, 0]
            logit = _mv(hidden, last) + p["mlp2.bias"]
            slope = (logit.sigmoid() - label) * real
            d_first = (slope[:, :, None] * last[:, None]).mul_(hidden > 0)
            d_sum = d_first.sum(1)
            dz = torch.bmm(d_first, from_item)
            d_user = _mv(from_user.transpose(1, 2), d_sum)
            last.sub_(rate * _mv(hidden.transpose(1, 2), slope))
            p["mlp2.bias"].sub_(rate * slope.sum(1, keepdim=True))
            from_item.baddbmm_(d_first.transpose(1, 2), z, alpha=-rate)
            from_user.addcmul_(d_sum[:, :, None], user[:, None], value=-rate)
            p["mlp1.bias"].sub_(rate * d_sum)
        else:
            slope = _mv(z, user).sigmoid_().sub_(label).mul_(real)
            dz = slope[:, :, None] * user[:, None]
            d_user = _mv(z.transpose(1, 2), slope)
        d_mean = self._user_step(d_user, user, inner)
        self.z[flat] = rows.sub_(dz, alpha=rate).view(n * b, d)
        if d_mean is not None:
            moved = -rate * d_mean / self.held
            self.mean += moved - rate * torch.bmm(own[:, None], dz)[:, 0]
            self.shift += moved
        if self.local.linear_term:
            self._linear_term(real.sum(1) / self.size)

    def _user(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The user's embedding, and what its last layer is applied to."""
        base = _mv(self.p["user.E"], self.x)
        if self.work.neighbours is Neighbours.IGNORED:
            return base, base
        if self.work.neighbours is Neighbours.ADDED:
            return base + self.mean, base
        inner = base + _mv(self.p["user.W1"], self.mean)
        return (_mv(self.p["user.W2"], inner) + self.p["user.b"]).relu_(), inner

    def _user_step(
        self, d_user: torch.Tensor, user: torch.Tensor, inner: torch.Tensor
    ) -> torch.Tensor | None:
        """Descends the user's parameters; the gradient of the neighbour mean if there is one."""
        p, rate = self.p, self.local.learning_rate
        d_mean = None if self.work.neighbours is Neighbours.IGNORED else d_user
        if self.work.neighbours is Neighbours.CONVOLVED:
            d_out = d_user * (user > 0)
            d_user = _mv(p["user.W2"].transpose(1, 2), d_out)
            d_mean = _mv(p["user.W1"].transpose(1, 2), d_user)
            p["user.W2"].addcmul_(d_out[:, :, None], inner[:, None], value=-rate)
            p["user.b"].sub_(rate * d_out)
            p["user.W1"].addcmul_(d_user[:, :, None], self.mean[:, None], value=-rate)
        p["user.E"].addcmul_(d_user[:, :, None], self.x[:, None], value=-rate)
        return d_mean

    def _linear_term(self, part: torch.Tensor) -> None:
        """The linear term of the share ``part`` (n,) of a device's examples."""
        rate = self.local.learning_rate
        if self.linear_term is not None:
            self.theta -= (rate * part)[:, None] * self.linear_term
            for half, draws in zip(self.halves, self.linear_halves, strict=True):
                half -= (rate * part)[:, None, None] * draws
        if self.linear_rows is not None:
            self.spent += part
            self.mean -= (rate * part)[:, None] * self.mean_linear

    def _finish(self, n: int, width: int, d: int) -> None:
        z = self.z.view(n, width, d)
        if self.local.optimizer == "adam":
            self.work.rows[self.place[self.real]] = z.cpu().numpy()[self.real]
            self.work.theta[self.block] = self.theta.cpu().numpy()
            return
        z += self.label.view(n, width, 1) * self.shift[:, None]
        if self.linear_rows is not None:
            z -= (self.local.learning_rate * self.spent)[:, None, None] * self.linear_rows.view_as(
                z
            )
        self.work.rows[self.place[self.real]] = z.cpu().numpy()[self.real]
        if self.halves:
            self.p["mlp1.weight"].copy_(torch.cat(self.halves, dim=2))
        self.work.theta[self.block] = self.theta.cpu().numpy()


def _mv(matrix: torch.Tensor, vector: torch.Tensor) -> torch.Tensor:
    """Matrix (n, a, b) times vector (n, b)."""
    return torch.bmm(matrix, vector[:, :, None])[:, :, 0]
