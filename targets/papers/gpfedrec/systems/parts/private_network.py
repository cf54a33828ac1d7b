"""Local training of item rows by a user vector and a network that never leave the device."""

from __future__ import annotations

from collections.abc import Mapping
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
    """What n devices keep: ``user`` (n, d), and a network of three hidden layers.

    Their widths are h, h/2 and h/4. The first is ReLU(``of_user`` u + ``of_item`` v + ``bias``),
    the next have the weights ``second`` and ``third``; a logit is ``out`` . last + ``level``.
    """

    user: Array
    of_user: Array
    of_item: Array
    bias: Array
    second: Array
    second_bias: Array
    third: Array
    third_bias: Array
    out: Array
    level: Array

    @classmethod
    def layout(cls, dimension: int, width: int) -> dict[str, tuple[tuple[int, ...], int]]:
        """The shape of each part of a device's, and the inputs of its layer, 0 of its vector."""
        pair, second, third = 2 * dimension, max(1, width // 2), max(1, width // 4)
        return {
            "user": ((dimension,), 0),
            "of_user": ((width, dimension), pair),
            "of_item": ((width, dimension), pair),
            "bias": ((width,), pair),
            "second": ((second, width), width),
            "second_bias": ((second,), width),
            "third": ((third, second), second),
            "third_bias": ((third,), second),
            "out": ((third,), third),
            "level": ((), third),
        }

    @classmethod
    def drawn(cls, rng: np.random.Generator, dimension: int, width: int) -> dict[str, Array]:
        """Where every device begins: a normal vector, and uniform layers as torch draws them."""
        parts = {
            name: rng.uniform(-1.0, 1.0, shape) / np.sqrt(inputs)
            if inputs
            else rng.standard_normal(shape)
            for name, (shape, inputs) in cls.layout(dimension, width).items()
        }
        return {name: np.asarray(part, np.float32) for name, part in parts.items()}

    @classmethod
    def alike(cls, parts: Mapping[str, Array], count: int) -> Self:
        """So many devices that all are in the state ``parts``."""
        return cls(**{name: np.repeat(part[None], count, axis=0) for name, part in parts.items()})

    def take(self, devices: Any) -> Self:
        """Views, or copies, of those of some devices."""
        return type(self)(**{f.name: getattr(self, f.name)[devices] for f in fields(self)})

    def hidden(self, rows: Array) -> tuple[Array, Array, Array]:
        """The hidden layers of item ``rows`` (n, b, d), each (n, b, its width)."""
        of_user = np.einsum("nhd,nd->nh", self.of_user, self.user) + self.bias
        first = np.maximum(rows @ self.of_item.transpose(0, 2, 1) + of_user[:, None], 0)
        second = np.maximum(first @ self.second.transpose(0, 2, 1) + self.second_bias[:, None], 0)
        third = np.maximum(second @ self.third.transpose(0, 2, 1) + self.third_bias[:, None], 0)
        return first, second, third

    def logits(self, rows: Array) -> Array:
        """(n, b)."""
        return self.of_last(self.hidden(rows)[-1])

    def of_last(self, hidden: Array) -> Array:
        """Logits (n, b) by the last hidden layer."""
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
    first, second, third = mine.hidden(v)
    logit = mine.of_last(third)
    count = np.maximum(valid.sum(axis=1, keepdims=True), 1)
    slope = ((expit(logit) - positive) * valid / count).astype(np.float32)
    of_third = slope[:, :, None] * mine.out[:, None] * (third > 0)
    of_second = (of_third @ mine.third) * (second > 0)
    of_first = (of_second @ mine.second) * (first > 0)
    change = np.float32(-rates.item) * (of_first @ mine.of_item)
    total = of_first.sum(axis=1)
    of_user = np.einsum("nh,nhd->nd", total, mine.of_user)
    rate = np.float32(rates.network)
    mine.of_item[:] -= rate * (of_first.transpose(0, 2, 1) @ v)
    mine.of_user[:] -= rate * total[:, :, None] * mine.user[:, None]
    mine.bias[:] -= rate * total
    mine.second[:] -= rate * (of_second.transpose(0, 2, 1) @ first)
    mine.second_bias[:] -= rate * of_second.sum(axis=1)
    mine.third[:] -= rate * (of_third.transpose(0, 2, 1) @ second)
    mine.third_bias[:] -= rate * of_third.sum(axis=1)
    mine.out[:] -= rate * np.einsum("nb,nbh->nh", slope, third)
    mine.level[:] -= rate * slope.sum(axis=1)
    mine.user[:] -= np.float32(rates.user) * of_user
    return np.asarray(change)
