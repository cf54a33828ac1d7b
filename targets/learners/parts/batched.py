"""Local training of many devices at once as batched matrix products, in torch, on any device.

Devices of like size train side by side, each with its own weights; padding is masked by a zero
gradient. Gradients are written out. SGD keeps two things lazily, exactly up to rounding: what every
step adds to all of a device's own rows (the gradient through the neighbour mean) is one vector
``shift`` a device, and the linear term of the touched rows is a coefficient ``spent`` of its draws.
Adam moves all rows at every step.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fedrec_auditor.targets.compute import Compute, torch_threads
from fedrec_auditor.targets.learners.parts.minibatches import draw_order
from fedrec_auditor.targets.learners.parts.work import BETA_1, BETA_2, TINY, Neighbours, Work, named

_NUMBERS = {"cpu": 1 << 21, "cuda": 1 << 28}
"""Padded item rows of a block, in numbers."""


def train_batched(work: Work, epochs: range, compute: Compute) -> None:
    """Trains all devices of ``work`` in place for these epochs, block by block."""
    device = torch.device(compute.device)
    bound = _NUMBERS.get(device.type, _NUMBERS["cpu"]) // work.dimension
    kind = _AdamBlock if work.local.optimizer == "adam" else _DescentBlock
    with torch_threads(compute.threads), torch.no_grad():
        for block in work.blocks(bound):
            kind(work, block, device).train(epochs)


class _Block(ABC):
    """The state of a block of devices; ``train`` runs epochs and writes the results back.

    ``mean`` (n, d) is the mean of every device's own rows as they are.
    """

    mean: torch.Tensor

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
        self.linear_term = self._tensor(work.linear_term[block]) if len(work.linear_term) else None
        self.linear_rows = None
        if len(work.linear_rows):
            draws = work.linear_rows[self.place]
            draws[~self.real] = 0
            self.linear_rows = self._tensor(draws).view(n * width, d)

    def _tensor(self, array: NDArray[Any]) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.device, torch.float32)

    def train(self, epochs: range) -> None:
        """These epochs of all devices of the block."""
        width, batch = int(self.sizes.max()), self.local.batch
        for epoch in epochs:
            order = torch.from_numpy(draw_order(self.streams, self.sizes, epoch)).to(self.device)
            for start in range(0, width, batch):
                end = min(start + batch, width)
                real = torch.arange(start, end, device=self.device) < self.size[:, None]
                self._step(order[:, start:end] + self.base, real.to(torch.float32))
        self._finish()

    @abstractmethod
    def _step(self, index: torch.Tensor, real: torch.Tensor) -> None:
        """One minibatch of every device: ``index`` (n, B) rows of z, ``real`` masks padding."""

    def _finish(self) -> None:
        """Writes the rows and all other parameters back."""
        rows = self._by_device(self.z).cpu().numpy()
        self.work.rows[self.place[self.real]] = rows[self.real]
        self.work.theta[self.block] = self.theta.cpu().numpy()

    def _by_device(self, rows: torch.Tensor) -> torch.Tensor:
        """``rows`` (n * width, ...) as (n, width, ...)."""
        return rows.view(len(self.block), len(rows) // len(self.block), rows.shape[-1])

    def _mean_of_own(self, rows: torch.Tensor) -> torch.Tensor:
        """Mean of every device's own ``rows``, (n, d)."""
        return torch.bmm(self.own.view(len(self.block), 1, -1), self._by_device(rows))[:, 0]

    def _slope(self, logit: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        """Derivative of the loss by the logits."""
        return 2 * (logit - label) if self.work.squared else logit.sigmoid_() - label

    def _user(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The user's embedding, and what its last layer is applied to."""
        base = _mv(self.p["user.E"], self.x)
        if self.work.neighbours is Neighbours.IGNORED:
            return base, base
        if self.work.neighbours is Neighbours.ADDED:
            return base + self.mean, base
        inner = base + _mv(self.p["user.W1"], self.mean)
        return (_mv(self.p["user.W2"], inner) + self.p["user.b"]).relu_(), inner


class _DescentBlock(_Block):
    """Plain SGD."""

    def __init__(self, work: Work, block: NDArray[np.int64], device: torch.device) -> None:
        super().__init__(work, block, device)
        self.halves: tuple[torch.Tensor, ...] = ()
        self.linear_halves: tuple[torch.Tensor, ...] = ()
        d = work.dimension
        if work.deep:  # contiguous, for matrix products
            self.halves = tuple(part.contiguous() for part in self.p["mlp1.weight"].split(d, dim=2))
            if self.linear_term is not None:
                first = named(self.linear_term, work.shapes)["mlp1.weight"]
                self.linear_halves = first.split(d, dim=2)
        self.mean = self._mean_of_own(self.z)
        self.shift = torch.zeros_like(self.mean)
        self.spent = torch.zeros_like(self.size)
        if self.linear_rows is not None:
            self.mean_linear = self._mean_of_own(self.linear_rows)

    def _step(self, index: torch.Tensor, real: torch.Tensor) -> None:
        """One minibatch of every device: ``index`` (n, B) rows of z, ``real`` masks padding."""
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
            slope = self._slope(logit, label) * real
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
            slope = self._slope(_mv(z, user), label) * real
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

    def _finish(self) -> None:
        z = self._by_device(self.z)
        z += self._by_device(self.label[:, None]) * self.shift[:, None]
        if self.linear_rows is not None:
            spent = (self.local.learning_rate * self.spent)[:, None, None]
            z -= spent * self._by_device(self.linear_rows)
        if self.halves:
            self.p["mlp1.weight"].copy_(torch.cat(self.halves, dim=2))
        super()._finish()


class _AdamBlock(_Block):
    """Adam: every parameter and every row of a device moves at each of its minibatches."""

    def __init__(self, work: Work, block: NDArray[np.int64], device: torch.device) -> None:
        super().__init__(work, block, device)
        self.steps = torch.zeros_like(self.size)
        self.gradient, self.row_gradient = torch.zeros_like(self.theta), torch.zeros_like(self.z)
        self.g = named(self.gradient, work.shapes)
        self.moments = tuple(
            (torch.zeros_like(self.theta), torch.zeros_like(self.z)) for _ in range(2)
        )
        for kept, rows, (theta, z) in zip(
            work.moments, work.row_moments, self.moments, strict=False
        ):
            theta[:] = self._tensor(kept[block])
            self._by_device(z)[self.real] = self._tensor(rows[self.place[self.real]])

    def train(self, epochs: range) -> None:
        """These epochs, the moments as those before have left them."""
        self.steps += epochs.start * torch.ceil(self.size / self.local.batch)
        super().train(epochs)

    def _finish(self) -> None:
        super()._finish()
        kept = zip(self.work.moments, self.work.row_moments, self.moments, strict=False)
        for of_theta, of_rows, (theta, z) in kept:
            of_theta[self.block] = theta.cpu().numpy()
            of_rows[self.place[self.real]] = self._by_device(z).cpu().numpy()[self.real]

    def _step(self, index: torch.Tensor, real: torch.Tensor) -> None:
        self.mean = self._mean_of_own(self.z)
        user, inner = self._user()
        dz, d_user = self._gradients(index.reshape(-1), real, user)
        d_mean = None if self.work.neighbours is Neighbours.IGNORED else d_user
        if self.work.neighbours is Neighbours.CONVOLVED:
            d_out = d_user * (user > 0)
            d_user = _mv(self.p["user.W2"].transpose(1, 2), d_out)
            d_mean = _mv(self.p["user.W1"].transpose(1, 2), d_user)
            self.g["user.W2"][:] = _outer(d_out, inner)
            self.g["user.b"][:] = d_out
            self.g["user.W1"][:] = _outer(d_user, self.mean)
        self.g["user.E"][:] = _outer(d_user, self.x)
        self.row_gradient.zero_()
        self.row_gradient[index.reshape(-1)] = dz.reshape(-1, dz.shape[-1])
        rows = self._by_device(self.row_gradient)
        if d_mean is not None:
            rows.add_(self._by_device(self.own[:, None]) * d_mean[:, None])
        part = real.sum(1) / self.size
        if self.linear_term is not None:
            self.gradient += part[:, None] * self.linear_term
        if self.linear_rows is not None:
            rows.add_(part[:, None, None] * self._by_device(self.linear_rows))
        self._move(part > 0)

    def _gradients(
        self, flat: torch.Tensor, real: torch.Tensor, user: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Those of the minibatch's rows (n, B, d) and of the user's embedding (n, d).

        Those of the MLP are left in ``gradient``.
        """
        p, g, (n, b), d = self.p, self.g, real.shape, self.work.dimension
        label, z = self.label[flat].view(n, b), self.z[flat].view(n, b, d)
        if not self.work.deep:
            slope = self._slope(_mv(z, user), label) * real
            return _outer(slope, user), _mv(z.transpose(1, 2), slope)
        from_user, from_item = p["mlp1.weight"].split(d, dim=2)
        hidden = torch.bmm(z, from_item.transpose(1, 2))
        hidden.add_((_mv(from_user, user) + p["mlp1.bias"])[:, None]).relu_()
        last = p["mlp2.weight"][:, 0]
        slope = self._slope(_mv(hidden, last) + p["mlp2.bias"], label) * real
        d_first = _outer(slope, last).mul_(hidden > 0)
        d_sum = d_first.sum(1)
        g["mlp2.weight"][:, 0] = _mv(hidden.transpose(1, 2), slope)
        g["mlp2.bias"][:] = slope.sum(1, keepdim=True)
        g["mlp1.weight"][:, :, :d] = _outer(d_sum, user)
        g["mlp1.weight"][:, :, d:] = torch.bmm(d_first.transpose(1, 2), z)
        g["mlp1.bias"][:] = d_sum
        return torch.bmm(d_first, from_item), _mv(from_user.transpose(1, 2), d_sum)

    def _move(self, active: torch.Tensor) -> None:
        """The step of all devices that have a minibatch left."""
        self.steps += active
        steps = self.steps.clamp(min=1)
        taken = active.to(torch.float32)[:, None, None]
        rate = taken * (self.local.learning_rate / (1 - BETA_1**steps))[:, None, None]
        scale = (1 - BETA_2**steps).rsqrt()[:, None, None]
        values, gradients = (self.theta, self.z), (self.gradient, self.row_gradient)
        for parts in zip(values, gradients, *self.moments, strict=True):
            p, g, m, v = (self._by_device(part) for part in parts)
            m.lerp_(g, (1 - BETA_1) * taken)
            v.lerp_(g.square(), (1 - BETA_2) * taken)
            p.sub_(rate * m / (scale * v.sqrt() + TINY))


def _mv(matrix: torch.Tensor, vector: torch.Tensor) -> torch.Tensor:
    """Matrix (n, a, b) times vector (n, b)."""
    return torch.bmm(matrix, vector[:, :, None])[:, :, 0]


def _outer(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Products (n, a, b) of vectors (n, a) and (n, b)."""
    return left[:, :, None] * right[:, None]
