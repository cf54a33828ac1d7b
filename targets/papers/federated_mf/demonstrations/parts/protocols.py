"""Many runs of LFL-SGDMF's messages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedrec_auditor.targets.components import Component
from fedrec_auditor.targets.papers.federated_mf.systems.lfl_sgdmf import LflSgdmf
from fedrec_auditor.targets.streams import Streams

_RUNS = 1 << 12  # protocols at once, whose numbers stay in the cache
Sums = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocols:
    """Both rounds of messages of one iteration of ``system``, many times over.

    ``ratings`` (users, items), zeros where there are none; ``first`` (items, p) the first item
    embeddings, which are public. The devices' messages are the system's (``begin``, ``send``), of
    ``_RUNS`` protocols in one call, every device with a stream of its own. Memory is some 2^12
    numbers a user, fifty times.
    """

    system: LflSgdmf
    ratings: NDArray[np.float32]
    first: NDArray[np.float32]

    def scores(
        self, size: int, rng: np.random.Generator, statistic: Callable[[Sums, Sums], Sums]
    ) -> NDArray[np.float64]:
        """``statistic`` of ``size`` runs, of the server's view of each.

        That is S, the sum of round 1 that secure aggregation shows, and R, that of the messages in
        the clear of round 2: both (runs, items, p).
        """
        ratings, n = sparse.csr_array(self.ratings), len(self.ratings)
        users = self.system.begin(ratings, self.first)
        count = np.array(n)
        model = {"items": self.first, "first": self.first, "users": count, "survivors": count}
        out = np.empty(size)
        for begin in range(0, size, _RUNS):
            runs = min(_RUNS, size - begin)
            owners = np.tile(np.arange(n), runs)
            sent, _ = self.system.send(
                sparse.csr_array(ratings[owners]),
                users[owners],
                model,
                Streams.spawn(rng, runs * n),
            )
            sums = (self._sum(sent[name], runs) for name in ("update", "replacement"))
            out[begin : begin + runs] = statistic(*sums)
        return out

    def _sum(self, messages: Component, runs: int) -> Sums:
        """Of every protocol's devices, which stand together: (runs, items, p)."""
        every = messages.dense(np.arange(len(messages)))
        each = every.reshape(runs, len(self.ratings), *self.first.shape)
        return np.asarray(each.sum(axis=1, dtype=np.float64))
