"""The code of a target's devices, as an adversary runs it on histories that it makes up."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedrec_auditor.auditor.games.informative import LARGEST, oversized
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.systems.base import Target, origin_of
from fedrec_auditor.targets.transcript import Broadcast, HistoriesRefused, Uploads


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedClient:
    """Calls ``target.upload`` with users who are nobody's. It holds nothing that a user has.

    ``nobody`` is the catalogue without users, ``values`` are those that ratings have, ``times`` the
    first and the last one, ``sizes`` the fewest and the most items of a user who has any;
    attributes are drawn from their categories.
    """

    target: Target
    nobody: Interactions
    values: NDArray[np.float32]
    times: tuple[int, int]
    sizes: tuple[int, int]

    @classmethod
    def of(cls, target: Target, data: Interactions) -> Self:
        """By what is public of ``data``."""
        times, held = data.timestamps, np.diff(data.ratings.indptr)
        held = held[held > 0]
        return cls(
            target=target,
            nobody=data.take(np.arange(0)),
            values=np.unique(data.ratings.data),
            times=(0, 0) if times is None else (int(times.min()), int(times.max())),
            sizes=(int(held.min()), int(held.max())) if len(held) else (1, data.n_items),
        )

    @property
    def seconds(self) -> float:
        """What a message costs, where it is much."""
        return self.target.upload_seconds

    @property
    def others(self) -> bool:
        """Whether the target is not one of the project's."""
        return origin_of(self.target).others

    def __call__(
        self,
        met: NDArray[np.bool_] | sparse.csr_array,
        broadcast: Broadcast | None,
        rng: np.random.Generator,
    ) -> Uploads:
        """See ``DeviceCode``. Where the code fails, each history is tried alone."""
        if isinstance(met, np.ndarray):
            ratings = sparse.csr_array(met.astype(np.float32))
            ratings.data[:] = rng.choice(self.values, ratings.nnz)
        else:
            ratings = met
        count: int = ratings.shape[0]
        timed = self.nobody.timestamps is not None
        profiles = replace(
            self.nobody,
            users=np.arange(count),
            ratings=ratings,
            timestamps=rng.integers(*self.times, ratings.nnz, endpoint=True) if timed else None,
            attributes={
                name: replace(each, codes=rng.integers(len(each.categories), size=count))
                for name, each in self.nobody.attributes.items()
            },
        )
        try:
            sent = self.target.upload(profiles, broadcast, rng)
        except HistoriesRefused:
            raise
        except Exception as error:
            takes = np.array([self._takes(profiles, user, broadcast) for user in range(count)])
            if takes.all():
                raise
            raise HistoriesRefused(f"{type(error).__name__}: {error}", takes) from error
        if (large := oversized(sent)).any():
            raise HistoriesRefused(f"it sends numbers above {LARGEST:g} or NaN", ~large)
        return sent

    def _takes(self, profiles: Interactions, user: int, broadcast: Broadcast | None) -> bool:
        """Whether the target's code takes the history of this user alone."""
        try:
            self.target.upload(profiles.take(np.array([user])), broadcast, np.random.default_rng(0))
        except Exception:
            return False
        return True
