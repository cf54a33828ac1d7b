"""Inputs of a network from the gradients that they caused: in closed form, and by optimisation.

The adversary knows the network and one example's gradients by all its weights. Optimisation looks
for an example whose gradients are the same: by their squared distance over input and label (DLG),
over the input alone, since the label shows in the sign of the last layer's gradient (iDLG), or by
the cosine between the two (Geiping et al.), here without priors on images. Where the first layer
has a bias none of this is needed: ``attacks.readers.first_layer`` is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.targets.compute import torch_threads

if TYPE_CHECKING:
    import torch

Doubles = NDArray[np.float64]
_RESTARTS, _STEPS = 8, 200  # of L-BFGS
_DESCENTS, _RATE = 3000, 0.1  # of Adam
_DONE = 1e-12


@dataclass(frozen=True, slots=True)
class Mlp:
    """Layers (h, d) with biases (h,), a sigmoid after each but the last, softmax cross entropy."""

    weights: Sequence[Doubles]
    biases: Sequence[Doubles]

    def gradients(self, x: Doubles, label: int) -> list[Doubles]:
        """Of the loss of one example (d,), by each weight and bias in turn."""
        import torch

        with torch_threads(1):
            target = torch.eye(len(self.biases[-1]), dtype=torch.float64)[label]
            found = self._gradients(torch.from_numpy(x), target, create=False)
        return [each.numpy() for each in found]

    def _gradients(
        self, x: torch.Tensor, target: torch.Tensor, *, create: bool
    ) -> tuple[torch.Tensor, ...]:
        import torch

        parts = [
            torch.tensor(part, dtype=torch.float64, requires_grad=True)
            for pair in zip(self.weights, self.biases, strict=True)
            for part in pair
        ]
        hidden = x
        for number in range(0, len(parts), 2):
            hidden = parts[number] @ (torch.sigmoid(hidden) if number else hidden)
            hidden = hidden + parts[number + 1]
        loss = -(target * torch.log_softmax(hidden, dim=0)).sum()
        return torch.autograd.grad(loss, parts, create_graph=create)


@dataclass(frozen=True, slots=True)
class Inverted:
    """An input (d,), the class guessed with it, and what is left of the distance it minimised."""

    x: Doubles
    label: int
    distance: float


def label_of(observed: Sequence[Doubles]) -> int:
    """The class of the one example: its logit alone has a negative gradient, p - 1.

    Source: Zhao et al., iDLG, 2020, section 3.
    """
    return int(np.argmin(observed[-1]))


def dlg(network: Mlp, observed: Sequence[Doubles], rng: np.random.Generator) -> Inverted:
    """Input and label of the least squared distance of gradients, by L-BFGS from normal starts.

    Source: Zhu et al., Deep Leakage from Gradients, 2019, algorithm 1.
    """
    import torch

    d, classes = network.weights[0].shape[1], len(network.biases[-1])

    def parts(point: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return point[:d], torch.softmax(point[d:], dim=0)

    return _restarted(network, observed, rng, d + classes, parts)


def idlg(network: Mlp, observed: Sequence[Doubles], rng: np.random.Generator) -> Inverted:
    """As ``dlg``, with the label of ``label_of``. Source: Zhao et al., iDLG, 2020."""
    import torch

    target = torch.eye(len(network.biases[-1]), dtype=torch.float64)[label_of(observed)]
    d = network.weights[0].shape[1]
    return _restarted(network, observed, rng, d, lambda point: (point, target))


def cosine(network: Mlp, observed: Sequence[Doubles], rng: np.random.Generator) -> Inverted:
    """The input whose gradients have the largest cosine with those observed, by Adam.

    The rate falls to a tenth at 3/8, 5/8 and 7/8 of the steps. Source: Geiping et al., Inverting
    Gradients, 2020, equation 4, without the total variation.
    """
    import torch

    label = label_of(observed)
    with torch_threads(1):
        target = torch.eye(len(network.biases[-1]), dtype=torch.float64)[label]
        goal = torch.from_numpy(np.concatenate([part.ravel() for part in observed]))
        x = torch.from_numpy(rng.standard_normal(network.weights[0].shape[1])).requires_grad_()
        descent = torch.optim.Adam([x], lr=_RATE)
        falls = [_DESCENTS * eighths // 8 for eighths in (3, 5, 7)]
        schedule = torch.optim.lr_scheduler.MultiStepLR(descent, falls)
        for _ in range(_DESCENTS):
            made = _flat(network._gradients(x, target, create=True))
            loss = 1 - made @ goal / (made.norm() * goal.norm())
            (x.grad,) = torch.autograd.grad(loss, [x])
            descent.step()
            schedule.step()
    return Inverted(x.detach().numpy().copy(), label, float(loss.detach()))


def _restarted(
    network: Mlp,
    observed: Sequence[Doubles],
    rng: np.random.Generator,
    size: int,
    parts: Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]],
) -> Inverted:
    """The best of some runs, or the first that leaves next to no distance."""
    import torch

    best: Inverted | None = None
    with torch_threads(1):
        goal = torch.from_numpy(np.concatenate([part.ravel() for part in observed]))
        scale = goal @ goal
        for _ in range(_RESTARTS):
            point = torch.from_numpy(rng.standard_normal(size)).requires_grad_()
            search = torch.optim.LBFGS(
                [point],
                max_iter=_STEPS,
                tolerance_grad=1e-14,
                tolerance_change=1e-18,
                history_size=50,
                line_search_fn="strong_wolfe",
            )

            def distance(point: torch.Tensor = point) -> torch.Tensor:
                away = _flat(network._gradients(*parts(point), create=True)) - goal
                loss = away @ away / scale
                (point.grad,) = torch.autograd.grad(loss, [point])
                return loss.detach()

            search.step(distance)  # type: ignore[no-untyped-call]
            left = float(distance())
            x, target = parts(point.detach())
            if best is None or left < best.distance:
                best = Inverted(x.numpy().copy(), int(target.argmax()), left)
            if left < _DONE:
                break
    assert best is not None
    return best


def _flat(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    import torch

    return torch.cat([part.reshape(-1) for part in parts])
