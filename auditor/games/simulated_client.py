"""The code of a target's devices, as an adversary runs it on histories that it makes up."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.systems.base import Target
from fedrec_auditor.targets.transcript import Broadcast, Uploads


@dataclass(frozen=True, slots=True)
class SimulatedClient:
    """Calls ``target.upload`` with users who are nobody's: of ``data`` it has what is public.

    That are the catalogue, the values that ratings, times and attributes have, and no user's.
    """

    target: Target
    data: Interactions

    @property
    def seconds(self) -> float:
        """What a message costs, where it is much."""
        return self.target.upload_seconds

    def __call__(
        self, met: NDArray[np.bool_], broadcast: Broadcast | None, rng: np.random.Generator
    ) -> Uploads:
        """See ``DeviceCode``."""
        data, count = self.data, len(met)
        ratings = sparse.csr_array(met.astype(np.float32))
        ratings.data[:] = rng.choice(np.unique(data.ratings.data), ratings.nnz)
        times = data.timestamps
        profiles = replace(
            data,
            users=data.users.max(initial=-1) + 1 + np.arange(count),
            ratings=ratings,
            timestamps=None
            if times is None
            else rng.integers(times.min(), times.max(), ratings.nnz, endpoint=True),
            attributes={
                name: replace(each, codes=rng.integers(len(each.categories), size=count))
                for name, each in data.attributes.items()
            },
        )
        return self.target.upload(profiles, broadcast, rng)
