"""LFL-SGDMF: with the replacements beside it, the masked sum has less noise than Theorem 5 says."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedrec_auditor.accountants.statements.scope import Adjacency, Horizon, Scope, Unit, Vantage
from fedrec_auditor.auditor.demonstrations.base import Contest
from fedrec_auditor.auditor.demonstrations.parts.asked import claim_in
from fedrec_auditor.auditor.demonstrations.parts.beyond import Beyond
from fedrec_auditor.targets.components import Component
from fedrec_auditor.targets.streams import Streams
from fedrec_auditor.targets.systems.base import Population
from fedrec_auditor.targets.systems.federated_mf.lfl_sgdmf import LflSgdmf
from fedrec_auditor.targets.systems.federated_mf.parts.sgd_mf import start

_SCOPE = Scope(
    unit=Unit.USER,
    adjacency=Adjacency.ADD_REMOVE,
    vantage=Vantage.AGGREGATE,
    horizon=Horizon.TRAINING,
)
_DELTA = 1e-5
_RUNS = 1 << 12  # protocols at once, whose numbers stay in the cache


@dataclass(frozen=True, slots=True)
class _Iteration:
    """Both rounds of messages of one iteration, ``size`` times, and S + c R, standardised.

    The devices' messages are the system's (``begin``, ``send``), of ``_RUNS`` protocols in one
    call, every device with a stream of its own; secure aggregation adds up those of a protocol.
    The server sees S, the sum of round 1, and R, that of the messages in the clear of round 2.
    V is a first one that ``start`` draws, of one item near 0; it is public, and user 0 rates that
    item. The other users' gradients are known, and taken away, and the sign is turned, for user 0's
    is negative. Memory is some 2^12 numbers a user, ten times.
    """

    system: LflSgdmf
    n_users: int
    joint: bool

    def __call__(self, world: int, size: int, rng: np.random.Generator) -> NDArray[np.float64]:
        system, n = self.system, self.n_users
        first = start(np.full((1, 1), 2.0**-10), system.bound)
        count = np.array(n)
        model = {"items": first, "first": first, "users": count, "survivors": count}
        table = np.full((n, 1), 0.6 * system.bound, np.float32)
        table[0] = 0.0 if world else system.bound
        ratings = sparse.csr_array(table)
        users = system.begin(ratings, first)
        before, after = system.shares(n, n)
        c = before / (before + after) if self.joint else 1.0
        spread = system.sigma * math.sqrt(n * ((1.0 - c) ** 2 * before + c**2 * after))
        known = np.sum(2.0 * (users * first - table) * users, where=np.arange(n)[:, None] > 0)
        out = np.empty(size)
        for begin in range(0, size, _RUNS):
            runs = min(_RUNS, size - begin)
            owners = np.tile(np.arange(n), runs)
            sent, _ = system.send(
                sparse.csr_array(ratings[owners]),
                users[owners],
                model,
                Streams.spawn(rng, runs * n),
            )
            s, r = (_sums(sent[name], runs) for name in ("update", "replacement"))
            out[begin : begin + runs] = s + c * r
        return (known - out) / spread


@dataclass(frozen=True, kw_only=True)
class LflReplacedNoise:
    """S + c R, c = zeta1/(zeta1 + zeta2), has noise of variance sigma^2/(2 - omega), not sigma^2.

    Ten users, of whom three may drop out and none does, and z = 3.7306, for which the theorem
    claims epsilon 1 of T = 1 iteration at delta = 1e-5. The control is what the theorem has in
    mind: the last sum, S + R, of the same messages. The event is one beyond ``threshold`` standard
    deviations, of which there are a thousand runs or so.
    """

    samples: int = 5_000_000
    n_users: int = 10
    omega: float = 0.3
    noise_multiplier: float = 3.7306
    threshold: float = 3.5

    target = "lfl-sgdmf"
    entries = ("22",)

    def violation(self) -> Contest:
        """The best statistic of all that the server sees."""
        return self._contest(joint=True)

    def control(self) -> Contest:
        """The last sum."""
        return self._contest(joint=False)

    def _contest(self, joint: bool) -> Contest:
        population = Population(n_users=self.n_users, n_items=1)
        system = LflSgdmf(
            factors=1,
            rounds=1,
            omega=self.omega,
            noise_multiplier=self.noise_multiplier,
            delta=_DELTA,
        )
        claim = claim_in(system, population, _SCOPE, _DELTA, place="Theorem 5")
        what = "the sum of both rounds"
        if joint:
            what = "the masked sum of round 1, plus c times the sum of round 2,"
        return Contest(
            system=system,
            claim=claim,
            scope=_SCOPE,
            delta=_DELTA,
            worlds=("user 0 rated the item", "user 0 rated nothing"),
            statistic=(
                f"{what} is {self.threshold:g} standard deviations beyond its mean without user 0"
            ),
            sample=Beyond(_Iteration(system, self.n_users, joint), self.threshold),
            samples=self.samples,
            population=population,
        )


def _sums(messages: Component, runs: int) -> NDArray[np.float64]:
    """Of every protocol's devices, which stand together."""
    every = messages.dense(np.arange(len(messages)))
    return np.asarray(every.reshape(runs, -1).sum(axis=1, dtype=np.float64))
