"""What one device holds, as a client of others is given it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.targets.datasets.base import Interactions


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """One user's data: items (k,) in order of time where it is known, else ascending.

    ``items`` are positions in the catalogue, 0 to ``n_items`` - 1; ``ratings`` (k,) float32 and
    ``timestamps`` (k,) int64, None where the data have none, belong to them. ``attributes`` are the
    user's, by name, as texts. ``genres`` (n_items, g) are those of all items, None without any.
    ``device`` is the number by which the server knows the device: it is the same in every round.

    >>> history = History(items=np.array([4, 1]), ratings=np.float32([5, 3]), n_items=6)
    >>> len(history), history.dense()
    (2, array([0., 3., 0., 0., 5., 0.], dtype=float32))
    """

    items: NDArray[np.int64]
    ratings: NDArray[np.float32]
    n_items: int
    timestamps: NDArray[np.int64] | None = None
    attributes: Mapping[str, str] = field(default_factory=dict)
    genres: NDArray[np.bool_] | None = None
    device: int = 0

    def __len__(self) -> int:
        """Number of interactions."""
        return len(self.items)

    def dense(self) -> NDArray[np.float32]:
        """Ratings of all items, (n_items,): 0 where there is none."""
        out = np.zeros(self.n_items, dtype=np.float32)
        out[self.items] = self.ratings
        return out

    @classmethod
    def of(cls, interactions: Interactions, user: int) -> History:
        """That of the user in this row; its arrays are copies."""
        table = interactions.ratings
        mine = slice(table.indptr[user], table.indptr[user + 1])
        items, ratings = table.indices[mine].astype(np.int64), table.data[mine].copy()
        times = None
        if interactions.timestamps is not None:
            times = interactions.timestamps[mine].copy()
            order = np.argsort(times, kind="stable")
            items, ratings, times = items[order], ratings[order], times[order]
        return cls(
            items=items,
            ratings=ratings,
            n_items=table.shape[1],
            timestamps=times,
            attributes={
                name: each.categories[each.codes[user]]
                for name, each in interactions.attributes.items()
            },
            genres=interactions.genres,
            device=int(interactions.users[user]),
        )
