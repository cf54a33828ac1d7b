"""Labels of the rows that a device moved, found by simulating its local steps.

The adversary knows the item rows V as they were broadcast, where each of them went, and how a
device trains: on a logistic loss of a score z_i, over own items (r = 1) and negatives (r = 0), for
k epochs. It looks for labels r in [0, 1]^m, and the user's vector x, such that k differentiable
steps

    v_i <- v_i - (sigma(z_i) - r_i) dz_i / dv_i

move V as was observed: in the same direction as a whole, for that does not depend on the learning
rate. x, and the layers of an MLP, stay as they are meanwhile. Source: Pham et al., RAIFLE, 2024,
section 4 (there the loss is a squared distance, and the features are manipulated as well).

For a dot product, -x with labels 1 - r moves rows exactly as x with r does. There are more
negatives than own items where q > 1; that decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.targets.compute import torch_threads

if TYPE_CHECKING:
    import torch

Floats = NDArray[np.float32]
_STEPS = 100
_RATES = 0.3, 0.01  # of labels, of the vector


@dataclass(frozen=True, slots=True)
class ItemScorer:
    """How a score follows from the two vectors: x . v, or output ReLU(first [x; v] + bias) + c."""

    first: Floats | None = None
    bias: Floats | None = None
    output: Floats | None = None
    c: float = 0.0

    def slopes(self, x: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Scores (m,) and their derivatives by the rows of v, (m, d)."""
        import torch

        if self.first is None or self.bias is None or self.output is None:
            return v @ x, x.expand_as(v)
        first, d = torch.from_numpy(self.first), v.shape[1]
        before = first[:, :-d] @ x + torch.from_numpy(self.bias) + v @ first[:, -d:].T
        back = (before > 0) * torch.from_numpy(self.output)
        return (before * back).sum(dim=1) + self.c, back @ first[:, -d:]


def labels(
    scorer: ItemScorer, rows: Floats, change: Floats, x: Floats, epochs: int
) -> tuple[Floats, float]:
    """r - sigma(z) (m,) of ``rows`` (m, d) that moved by ``change``, and 1 - the cosine reached.

    The search starts at ``x`` and labels that are what it predicts, by Adam. As only the direction
    is compared, a label is told by the side of its prediction that it comes to lie on.
    """
    import torch

    with torch_threads(1):
        goal = torch.from_numpy(np.asarray(change, dtype=np.float32))
        goal = goal / goal.norm()
        first = torch.from_numpy(np.asarray(rows, dtype=np.float32))
        at = torch.from_numpy(np.asarray(x, dtype=np.float32)).clone().requires_grad_()
        r = scorer.slopes(at, first)[0].detach().clone().requires_grad_()
        groups: list[dict[str, Any]] = [
            {"params": [r], "lr": _RATES[0]},
            {"params": [at], "lr": _RATES[1]},
        ]
        search = torch.optim.Adam(groups)
        for _ in range(_STEPS):
            now, guess = first, torch.sigmoid(r)
            for _ in range(epochs):
                score, slope = scorer.slopes(at, now)
                now = now - (torch.sigmoid(score) - guess)[:, None] * slope
            moved = now - first
            loss = 1 - (moved * goal).sum() / (moved.norm() + 1e-12)
            search.zero_grad()
            loss.backward()
            search.step()
        away = torch.sigmoid(r) - torch.sigmoid(scorer.slopes(at, first)[0])
    return away.detach().numpy(), float(loss.detach())


def direction(change: Floats) -> Floats:
    """What the moves (m, d) of most rows have in common: a unit vector (d,), of either sign."""
    length = np.linalg.norm(change, axis=1, keepdims=True)
    unit = change / np.maximum(length, np.finfo(np.float32).tiny)
    return np.asarray(np.linalg.svd(unit, full_matrices=False)[2][0], dtype=np.float32)
