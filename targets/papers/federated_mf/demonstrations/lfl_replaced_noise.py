"""LFL-SGDMF: with the replacements beside it, the masked sum has less noise than Theorem 5 says."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedrec_auditor.accountants.statements.scope import Unit, Vantage
from fedrec_auditor.targets.declarations.demonstration import Beyond, Demonstration, Side
from fedrec_auditor.targets.papers.federated_mf.demonstrations.parts.protocols import (
    Protocols,
    Sums,
)
from fedrec_auditor.targets.papers.federated_mf.systems.lfl_sgdmf import LflSgdmf
from fedrec_auditor.targets.papers.federated_mf.systems.parts.party_mf import scope_of
from fedrec_auditor.targets.papers.federated_mf.systems.parts.sgd_mf import start
from fedrec_auditor.targets.systems.base import Population


@dataclass(frozen=True, slots=True)
class _Iteration:
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


def lfl_replaced_noise(
    *,
    samples: int = 5_000_000,
    n_users: int = 10,
    omega: float = 0.3,
    noise_multiplier: float = 3.7306,
    threshold: float = 3.5,
) -> Demonstration:
    """With the replacements beside it, the masked sum has less noise than Theorem 5 says.

    S + c R, c = zeta1/(zeta1 + zeta2), has noise of variance sigma^2/(2 - omega), not sigma^2.

    Ten users, of whom three may drop out and none does, and z = 3.7306, for which the theorem
    claims epsilon 1 of T = 1 iteration at delta = 1e-5. The control is what the theorem has in
    mind: the last sum, S + R, of the same messages. The event is one beyond ``threshold`` standard
    deviations, of which there are a thousand runs or so.
    """

    def side(violates: bool) -> Side:
        """The best statistic of all that the server sees; the control looks at the last sum."""
        system = LflSgdmf(factors=1, rounds=1, omega=omega, noise_multiplier=noise_multiplier)
        what = "the sum of both rounds"
        if violates:
            what = "the masked sum of round 1, plus c times the sum of round 2,"
        return Side(
            system=system,
            population=Population(n_users=n_users, n_items=1),
            worlds=("user 0 rated the item", "user 0 rated nothing"),
            scope=scope_of(Unit.USER, Vantage.AGGREGATE),
            draw=Beyond(_Iteration(system, n_users, violates), threshold),
            statistic=(
                f"{what} is {threshold:g} standard deviations beyond its mean without user 0"
            ),
            samples=samples,
            delta=system.delta,
        )

    return Demonstration.of(("22",), side)
