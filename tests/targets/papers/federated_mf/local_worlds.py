"""Many runs of LFL-SGDMF's messages, in two worlds: rows 22 and 24b of the catalogue."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedrec_auditor.targets.components import Component
from fedrec_auditor.targets.papers.federated_mf.systems.local_systems import LflSgdmf
from fedrec_auditor.targets.papers.federated_mf.systems.parts.sgd_mf import start
from fedrec_auditor.targets.streams import Streams
from tests.two_worlds import in_blocks

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

        def block(runs: int) -> NDArray[np.float64]:
            owners = np.tile(np.arange(n), runs)
            sent, _ = self.system.send(
                sparse.csr_array(ratings[owners]),
                users[owners],
                model,
                Streams.spawn(rng, runs * n),
            )
            sums = (self._sum(sent[name], runs) for name in ("update", "replacement"))
            return statistic(*sums)

        return in_blocks(size, _RUNS, block)

    def _sum(self, messages: Component, runs: int) -> Sums:
        """Of every protocol's devices, which stand together: (runs, items, p)."""
        every = messages.dense(np.arange(len(messages)))
        each = every.reshape(runs, len(self.ratings), *self.first.shape)
        return np.asarray(each.sum(axis=1, dtype=np.float64))


@dataclass(frozen=True, slots=True)
class Iteration:
    """S + c R of both rounds of messages of one iteration (``Protocols``), standardised.

    V is a first one that ``start`` draws, of one item near 0; user 0 rates that item. The other
    users' gradients are known, and taken away, and the sign is turned, for user 0's is negative.
    """

    system: LflSgdmf
    n_users: int
    joint: bool

    def __call__(self, world: int, size: int, rng: np.random.Generator) -> NDArray[np.float64]:
        system, n = self.system, self.n_users
        first = start(np.full((1, 1), 2.0**-10), system.bound)
        table = np.full((n, 1), 0.6 * system.bound, np.float32)
        table[0] = 0.0 if world else system.bound
        users = system.begin(sparse.csr_array(table), first)
        before, after = system.shares(n, n)
        c = before / (before + after) if self.joint else 1.0
        spread = system.sigma * math.sqrt(n * ((1.0 - c) ** 2 * before + c**2 * after))
        known = np.sum(2.0 * (users * first - table) * users, where=np.arange(n)[:, None] > 0)

        def statistic(masked: Sums, clear: Sums) -> Sums:
            return np.asarray((known - (masked + c * clear)[:, 0, 0]) / spread)

        return Protocols(system=system, ratings=table, first=first).scores(size, rng, statistic)


@dataclass(frozen=True, slots=True)
class Turned:
    """Inner product of S + R with the difference that the rating makes on average, standardised.

    S and R are the sums of both rounds of messages (``Protocols``); with the repaired noise S + R
    says all there is.

    V is a public first one that ``start`` draws: faint on the second axis for item 0, longer on the
    first axis for item 1, and so short that every error is nearly -R. User 0 rated item 0 if
    ``another``, and item 1 in world 0 only; all ratings are R. With item 0 alone the embedding is b
    on the second axis and the gradient -2R b in row 0; with item 1, too, it is a on the first one,
    and the gradient -2R a in row 0 or row 1, whichever is drawn. The adversary computes both
    embeddings as the device does. The other users have no ratings, and send noise.
    """

    system: LflSgdmf
    n_users: int
    another: bool

    def worlds(self) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
        """Ratings (users, 2) in either world, and the first V (2, 2)."""
        bound = self.system.bound
        there = np.zeros((self.n_users, 2), np.float32)
        there[0] = bound if self.another else 0.0, bound
        missing = there.copy()
        missing[0, 1] = 0.0
        uniform = np.array([(2.0**-40, 2.0**-20), (2.0**-10, 2.0**-40)])
        return there, missing, start(uniform, bound)

    def __call__(self, world: int, size: int, rng: np.random.Generator) -> NDArray[np.float64]:
        system = self.system
        *tables, first = self.worlds()
        with_it, without = (self.gradients(table, first).mean(axis=0) for table in tables)
        along = with_it - without
        along /= np.linalg.norm(along) * system.sigma  # the noise of S + R has variance sigma^2
        center = np.vdot(without, along)

        def statistic(masked: Sums, clear: Sums) -> Sums:
            return np.asarray(np.einsum("nif,if->n", masked + clear, along) - center)

        runs = Protocols(system=system, ratings=tables[world], first=first)
        return runs.scores(size, rng, statistic)

    def gradients(
        self, table: NDArray[np.float32], first: NDArray[np.float32]
    ) -> NDArray[np.float64]:
        """What user 0 may send but for noise, (ratings, 2, 2), each as likely; else 0."""
        user = self.system.begin(sparse.csr_array(table), first)[0].astype(np.float64)
        rated = np.flatnonzero(table[0])
        out = np.zeros((max(1, len(rated)), 2, 2))
        error = first[rated] @ user - table[0, rated]
        out[np.arange(len(rated)), rated] = 2.0 * error[:, None] * user
        return out
