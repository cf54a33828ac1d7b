"""What a device draws before it trains: its negatives, once, and an order of its examples an epoch.

Every number depends on the device's own stream and on its own items only, so a batch of devices
draws what they would draw one by one, and every way of training consumes the same draws. Negatives
are drawn without replacement, so an example is an item: the rows that a device touches are its
examples, and each of them is visited once an epoch.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.targets.components import Ints
from fedrec_auditor.targets.compute import blocks
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.learners.base import LocalTraining
from fedrec_auditor.targets.streams import Streams

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
