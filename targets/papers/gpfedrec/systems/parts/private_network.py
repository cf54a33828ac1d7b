"""Local training of item rows by a user vector and a network that never leave the device."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from fedrec_auditor.targets.learners.parts.minibatches import Examples, draw_order
from fedrec_auditor.targets.streams import Streams

Array = NDArray[np.float32]
_BLOCK = 64  # devices at once


@dataclass(frozen=True, slots=True, kw_only=True)
class Private:
    """What n devices keep: ``user`` (n, d), and a network of one hidden layer of width h.

    A logit is ``out`` . ReLU(``of_user`` u + ``of_item`` v + ``bias``) + ``level``.
    """

    user: Array
    of_user: Array
    of_item: Array
    bias: Array
    out: Array
    level: Array

    @classmethod
    def drawn(cls, streams: Streams, dimension: int, width: int) -> Self:
        """A first state a stream: a normal vector, and uniform layers as torch begins with them."""
        pair = dimension * width
        ends = 2.0 * streams.fold_in(1).uniform(2 * pair + 2 * width + 1) - 1.0
        first = ends[:, : 2 * pair + width] / np.sqrt(2 * dimension)
        last = ends[:, 2 * pair + width :] / np.sqrt(width)
        shape = (len(streams), width, dimension)
        parts = {
            "user": streams.fold_in(0).normal(dimension),
            "of_user": first[:, :pair].reshape(shape),
            "of_item": first[:, pair : 2 * pair].reshape(shape),
            "bias": first[:, 2 * pair :],
            "out": last[:, :width],
            "level": last[:, width],
        }
        return cls(**{name: part.astype(np.float32) for name, part in parts.items()})

    def take(self, devices: Any) -> Self:
        """Views, or copies, of those of some devices."""
        return type(self)(**{f.name: getattr(self, f.name)[devices] for f in fields(self)})

    def hidden(self, rows: Array) -> Array:
        """The hidden layer before its ReLU, of item ``rows`` (n, b, d): (n, b, h)."""
        of_user = np.einsum("nhd,nd->nh", self.of_user, self.user) + self.bias
        return np.asarray(rows @ self.of_item.transpose(0, 2, 1) + of_user[:, None])

    def logits(self, rows: Array) -> Array:
        """(n, b)."""
        hidden = np.maximum(self.hidden(rows), 0)
        return np.asarray(np.einsum("nbh,nh->nb", hidden, self.out) + self.level[:, None])


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Sizes of steps: of a network, of a user's vector, of item rows; and ``pull`` a step."""

    network: float
    user: float
    item: float
    pull: float


def train(
    private: Private,
    rows: Array,
    toward: Array,
    examples: Examples,
    batch: int,
    rates: Rates,
    streams: Streams,
) -> None:
    """One epoch of plain gradient descent, ``private`` and ``rows`` (nnz, d) in place.

    The loss of a batch is the mean cross-entropy of its examples; besides, every row of a device is
    pulled ``rates.pull`` of the way to its row of ``toward`` (nnz, d) at each of its batches.
    """
    sizes = examples.sizes
    order = np.argsort(-sizes, kind="stable")
    for start in range(0, len(order), _BLOCK):
        some = np.sort(order[start : start + _BLOCK])
        mine = private.take(some)
        turns = draw_order(streams.take(some), sizes[some], 0)
        for first in range(0, int(sizes[some].max(initial=0)), batch):
            visit = turns[:, first : first + batch]
            valid = np.arange(first, first + visit.shape[1]) < sizes[some, None]
            active = valid.any(axis=1)
            at = np.where(valid, examples.indptr[some, None] + visit, 0)
            change = _step(mine, rows[at], examples.positive[at], valid, rates)
            held = np.concatenate([np.arange(*examples.indptr[u : u + 2]) for u in some[active]])
            rows[held] += np.float32(rates.pull) * (toward[held] - rows[held])
            rows[at[valid]] += change[valid]
        for f in fields(private):
            getattr(private, f.name)[some] = getattr(mine, f.name)


def _step(
    mine: Private, v: Array, positive: NDArray[np.bool_], valid: NDArray[np.bool_], rates: Rates
) -> Array:
    """One batch of some devices: ``mine`` in place; how it moves the rows (n, b, d)."""
    before = mine.hidden(v)
    hidden = np.maximum(before, 0)
    logit = np.einsum("nbh,nh->nb", hidden, mine.out) + mine.level[:, None]
    count = np.maximum(valid.sum(axis=1, keepdims=True), 1)
    slope = ((expit(logit) - positive) * valid / count).astype(np.float32)
    back = slope[:, :, None] * mine.out[:, None] * (before > 0)
    change = np.float32(-rates.item) * (back @ mine.of_item)
    total = back.sum(axis=1)
    of_user = np.einsum("nh,nhd->nd", total, mine.of_user)
    rate = np.float32(rates.network)
    mine.of_item[:] -= rate * (back.transpose(0, 2, 1) @ v)
    mine.of_user[:] -= rate * total[:, :, None] * mine.user[:, None]
    mine.bias[:] -= rate * total
    mine.out[:] -= rate * np.einsum("nb,nbh->nh", slope, hidden)
    mine.level[:] -= rate * slope.sum(axis=1)
    mine.user[:] -= np.float32(rates.user) * of_user
    return np.asarray(change)
