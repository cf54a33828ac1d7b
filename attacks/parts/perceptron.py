"""A multi-layer perceptron for wide inputs: scikit-learn's, trained twice as fast."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.targets.compute import torch_threads

if TYPE_CHECKING:
    import torch

_BATCH, _RATE, _DECAY, _TOLERANCE, _PATIENCE = 200, 1e-3, 1e-4, 1e-4, 10


class Perceptron:
    """Hidden layers of rectified units, cross entropy, Adam: scikit-learn's ``MLPClassifier``.

    The same defaults: uniform Glorot weights, batches of 200, rate 1e-3, decay 1e-4, an end after
    ten epochs in a row that lower the loss by less than 1e-4. Nearly all the time of an input of
    10^5 columns goes into Adam's pass over the first layer's weights, which torch fuses; memory is
    four times these weights. Float32; equal seeds give equal weights on one machine. It computes in
    one thread: where cores are busy, several wait for one another longer than they work (20 times
    as long was measured, two threads on two busy cores).
    """

    def __init__(self, hidden: tuple[int, ...], *, epochs: int, seed: int) -> None:
        self.hidden, self.epochs, self.seed = hidden, epochs, seed
        self._layers: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._classes: NDArray[np.int64] = np.zeros(0, dtype=np.int64)

    def fit(self, x: NDArray[np.float32], y: NDArray[np.int64]) -> Perceptron:
        """Learn classes ``y`` (n,) from rows ``x`` (n, d)."""
        with torch_threads(1):
            self._fit(x, y)
        return self

    def _fit(self, x: NDArray[np.float32], y: NDArray[np.int64]) -> None:
        import torch

        self._classes, codes = np.unique(y, return_inverse=True)
        rows, labels = torch.from_numpy(np.ascontiguousarray(x)), torch.from_numpy(codes)
        dice = torch.Generator().manual_seed(self.seed)
        sizes = (x.shape[1], *self.hidden, len(self._classes))
        self._layers = []
        for inner, outer in itertools.pairwise(sizes):
            bound = (6.0 / (inner + outer)) ** 0.5
            weight, bias = (
                torch.empty(shape).uniform_(-bound, bound, generator=dice).requires_grad_()
                for shape in ((outer, inner), (outer,))
            )
            self._layers.append((weight, bias))
        weights, biases = zip(*self._layers, strict=True)
        groups: list[dict[str, Any]] = [
            {"params": weights, "weight_decay": _DECAY / len(y)},
            {"params": biases},
        ]
        adam = torch.optim.Adam(groups, lr=_RATE, fused=True)
        best, stalled = float("inf"), 0
        for _ in range(self.epochs):
            total = 0.0
            order = torch.randperm(len(y), generator=dice)
            for start in range(0, len(y), _BATCH):
                batch = order[start : start + _BATCH] if len(y) > _BATCH else slice(None)
                adam.zero_grad()
                loss = torch.nn.functional.cross_entropy(self._logits(rows[batch]), labels[batch])
                loss.backward()  # type: ignore[no-untyped-call]
                adam.step()
                total += float(loss.detach()) * len(labels[batch])
            mean = total / len(y)
            stalled = stalled + 1 if mean > best - _TOLERANCE else 0
            best = min(best, mean)
            if stalled >= _PATIENCE:
                break

    def predict(self, x: NDArray[np.float32]) -> NDArray[np.int64]:
        """The likeliest class of every row."""
        return np.asarray(self._classes[self.scores(x).argmax(axis=1)], dtype=np.int64)

    def scores(self, x: NDArray[np.float32]) -> NDArray[np.float64]:
        """Logits of the classes, ascending, of every row: (m, C)."""
        import torch

        with torch_threads(1), torch.no_grad():
            found = self._logits(torch.from_numpy(np.ascontiguousarray(x)))
        return found.numpy().astype(np.float64)

    def _logits(self, rows: torch.Tensor) -> torch.Tensor:
        import torch

        *first, (weight, bias) = self._layers
        for one, shift in first:
            rows = torch.relu(torch.addmm(shift, rows, one.T))
        return torch.addmm(bias, rows, weight.T)
