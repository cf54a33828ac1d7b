"""Work of a round of local training: its inputs, and the draws of each device before it trains."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.targets.components import Ints
from fedrec_auditor.targets.compute import blocks
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.learners.base import LocalTraining
from fedrec_auditor.targets.streams import Streams

# Draws of a device before it trains: its negatives, once, and an order of its examples per epoch.
#
# Every number depends on the device's own stream and on its own items only, so a batch of devices
# draws what they would draw one by one, and every way of training consumes the same draws.
# Negatives are drawn without replacement, so an example is an item: the rows that a device touches
# are its examples, and each of them is visited once an epoch.

_NEGATIVES = 0
_LOW = np.uint64((1 << 24) - 1)  # bits of a random key that hold its position and break ties
_BLOCK = 1 << 21  # keys at once


@dataclass(frozen=True, slots=True)
class Examples:
    """Items ``ids[indptr[i] : indptr[i + 1]]`` of device i, ascending: its own and negatives.

    ``positive`` (nnz,) tells its own.
    """

    indptr: NDArray[np.int64]
    ids: NDArray[np.int32]
    positive: NDArray[np.bool_]

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Number of examples a device, (n,)."""
        return np.diff(self.indptr)


def draw_examples(interactions: Interactions, streams: Streams, negatives: int) -> Examples:
    """Every device's items, and ``negatives`` times as many others, uniform without replacement.

    All others where there are fewer (the paper downsamples them, section 2). Work is proportional
    to devices times items, memory to ``_BLOCK`` keys and the result.
    """
    table, n_items = interactions.ratings, interactions.n_items
    streams = streams.fold_in(_NEGATIVES)
    sizes, ids, positive = [np.zeros(1, dtype=np.int64)], [], []
    for block in blocks(interactions.n_users, n_items, _BLOCK):
        start, end = block.start, block.stop
        held = np.diff(table.indptr[start : end + 1])
        own = np.zeros((end - start, n_items), dtype=np.bool_)
        items = table.indices[table.indptr[start] : table.indptr[end]]
        own[np.repeat(np.arange(end - start), held), items] = True
        keys = _keys(Streams(streams.seeds[block]), n_items)
        keys[own] = ~np.uint64(0)  # above every other
        wanted = np.minimum(negatives * held, n_items - held)
        ranked = np.sort(keys, axis=1)
        last = ranked[np.arange(end - start), np.maximum(wanted - 1, 0)]
        chosen = own | ((keys <= last[:, None]) & (wanted > 0)[:, None])
        places = np.flatnonzero(chosen)
        sizes.append(np.count_nonzero(chosen, axis=1))
        ids.append((places % n_items).astype(np.int32))
        positive.append(own.ravel()[places])
    return Examples(
        indptr=np.cumsum(np.concatenate(sizes)),
        ids=np.concatenate([np.zeros(0, dtype=np.int32), *ids]),
        positive=np.concatenate([np.zeros(0, dtype=np.bool_), *positive]),
    )


def draw_order(streams: Streams, sizes: Ints, epoch: int) -> NDArray[np.int32]:
    """For every device a uniform permutation of its first ``sizes`` examples, (n, max(sizes)).

    Positions beyond a device's size stay where they are.
    """
    width = int(sizes.max(initial=0))
    keys = _keys(streams.fold_in(2 * epoch + 1), width)
    padding = np.arange(width) >= sizes[:, None]
    keys[padding] |= ~_LOW
    keys.sort(axis=1)
    return (keys & _LOW).astype(np.int32)


def draw_linear_term(
    streams: Streams, local: LocalTraining, shapes: dict[str, tuple[int, ...]], name: str
) -> NDArray[np.float32]:
    """Coefficients of the linear term for one dense component, (n, *shape)."""
    from fedrec_auditor.targets.noise_kernel import laplace

    seeds = _linear_streams(streams, shapes, name).seeds
    zeros = np.zeros((len(streams), int(np.prod(shapes[name]))), dtype=np.float32)
    drawn = np.empty_like(zeros)
    laplace(zeros, seeds, 1.0, local.linear_term[name], drawn)
    return drawn.reshape(len(streams), *shapes[name])


def draw_linear_rows(
    streams: Streams,
    local: LocalTraining,
    shapes: dict[str, tuple[int, ...]],
    examples: Examples,
) -> NDArray[np.float32]:
    """Coefficients of the linear term for touched rows of "item": (nnz, d), place item * d + k."""
    from fedrec_auditor.targets.noise_kernel import laplace_rows

    seeds = _linear_streams(streams, shapes, "item").seeds
    zeros = np.zeros((len(examples.ids), shapes["item"][1]), dtype=np.float32)
    drawn = np.empty_like(zeros)
    ids = examples.ids.astype(np.int64)
    laplace_rows(zeros, examples.indptr, ids, seeds, 1.0, local.linear_term["item"], drawn)
    return drawn


def _linear_streams(streams: Streams, shapes: dict[str, tuple[int, ...]], name: str) -> Streams:
    return streams.fold_in(2 * list(shapes).index(name) + 2)


def _keys(streams: Streams, count: int) -> NDArray[np.uint64]:
    """Distinct random keys (n, count) whose low bits are their position."""
    return (streams.random_bits(count) & ~_LOW) | np.arange(count, dtype=np.uint64)


BETA_1, BETA_2, TINY = 0.9, 0.999, 1e-8
"""Adam's usual constants (Kingma and Ba 2015)."""


class Neighbours(IntEnum):
    """What a user's embedding takes from the items that the device holds."""

    IGNORED = 0  # u = z_u
    ADDED = 1  # u = z_u + mean z_v
    CONVOLVED = 2  # u = ReLU(W2 (z_u + W1 mean z_v) + b)


@dataclass(frozen=True, slots=True)
class Work:
    """All devices of one call: what they train on, and their parameters, trained in place.

    ``neighbours`` and ``deep`` say which model it is, ``squared`` that its loss is not the
    cross-entropy but (label - logit)^2, ``shapes`` which components it has.
    ``theta`` (n, P) has all but the item rows, a component after the other; ``rows`` (nnz, d) the
    touched item rows. ``linear_term`` and ``linear_rows`` have the same shapes, or no rows.
    ``moments`` and ``row_moments`` are Adam's, (2, n, P) and (2, nnz, d), where they must outlast
    a call: for one call that runs all epochs they have no rows.
    """

    neighbours: Neighbours
    deep: bool
    squared: bool
    shapes: dict[str, tuple[int, ...]]
    local: LocalTraining
    streams: Streams
    features: NDArray[np.float32]
    examples: Examples
    theta: NDArray[np.float32]
    rows: NDArray[np.float32]
    linear_term: NDArray[np.float32]
    linear_rows: NDArray[np.float32]
    moments: NDArray[np.float32]
    row_moments: NDArray[np.float32]

    @property
    def dimension(self) -> int:
        """Length of an embedding, d."""
        return int(self.rows.shape[1])

    def blocks(self, bound: int) -> Iterator[NDArray[np.int64]]:
        """Devices with examples, of like size, as many as keep devices x size under ``bound``."""
        sizes = self.examples.sizes
        order = np.argsort(sizes, kind="stable")[::-1]
        order = order[sizes[order] > 0]
        while len(order):
            count = max(1, bound // int(sizes[order[0]]))
            yield np.sort(order[:count])
            order = order[count:]


def named(theta: Any, shapes: dict[str, tuple[int, ...]]) -> dict[str, Any]:
    """Views of ``theta`` (n, P), array or tensor, by component."""
    out, start = {}, 0
    for name, shape in shapes.items():
        if name != "item":
            end = start + int(np.prod(shape))
            out[name] = theta[:, start:end].reshape(len(theta), *shape)
            start = end
    return out
