"""What a device trains on: its items as positives, and items it has not met as negatives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.targets.components import Ints
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.streams import Streams

LANES = 16
"""Minibatches are multiples of it: torch computes a sigmoid in other bits at the end of an array
that does not fill its vectors, and that end would depend on the number of devices."""
_DRAW, _ORDER = 0, 1  # purposes of a device's streams


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceExamples:
    """Examples of n devices, each item at most once, padded to one width.

    ``items`` (n, width) holds the positives, ascending, then the negatives; ``counts`` (n,) are
    the numbers of positives, ``sizes`` (n,) of all examples. What lies beyond is padding.
    """

    items: NDArray[np.int64]
    counts: NDArray[np.int64]
    sizes: NDArray[np.int64]

    @classmethod
    def draw(
        cls, interactions: Interactions, streams: Streams, *, negatives: int
    ) -> DeviceExamples:
        """Every stored interaction, and ``negatives`` times as many unmet items, all different.

        Fewer where the catalogue has no more. Memory: 8 bytes a device and item of the catalogue.
        """
        n_items = interactions.n_items
        counts = np.diff(interactions.ratings.indptr).astype(np.int64)
        sizes = counts + np.minimum(negatives * counts, n_items - counts)
        keys = streams.fold_in(_DRAW).uniform(n_items)
        row = np.repeat(np.arange(len(counts)), counts)
        keys[row, interactions.ratings.indices] = -1.0
        items = np.argsort(keys, axis=1, kind="stable")[:, : int(sizes.max(initial=0))]
        return cls(items=items, counts=counts, sizes=sizes)

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def labels(self) -> NDArray[np.float32]:
        """1 for positives, 0 for negatives and padding, (n, width)."""
        return (np.arange(self.items.shape[1]) < self.counts[:, None]).astype(np.float32)

    def orders(self, streams: Streams, epoch: int, width: int) -> NDArray[np.int64]:
        """A new order of each device's examples, (n, width), padding last. ``width`` may be larger.

        An order depends on the device's own stream and number of examples only.
        """
        keys = streams.fold_in(_ORDER + epoch).uniform(width)
        keys[np.arange(width) >= self.sizes[:, None]] = 2.0
        return np.argsort(keys, axis=1, kind="stable")

    def take(self, devices: Ints) -> DeviceExamples:
        """The examples of these devices."""
        return DeviceExamples(
            items=self.items[devices], counts=self.counts[devices], sizes=self.sizes[devices]
        )
