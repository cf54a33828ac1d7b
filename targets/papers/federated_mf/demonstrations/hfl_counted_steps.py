"""HFL-SGDMF: Proposition 3 accounts for the T' steps of one round where T T' are taken."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.targets.declarations.demonstration import Beyond, Demonstration, Side
from fedrec_auditor.targets.papers.federated_mf.demonstrations.parts.side_by_side import (
    ONE_PARTY,
    SideBySide,
)
from fedrec_auditor.targets.papers.federated_mf.systems.hfl_sgdmf import HflSgdmf
from fedrec_auditor.targets.papers.federated_mf.systems.parts.party_mf import scope_of
from fedrec_auditor.targets.papers.federated_mf.systems.parts.sgd_mf import start
from fedrec_auditor.targets.systems.base import Population


@dataclass(frozen=True, slots=True)
class _AllRounds:
    """The mean of an item's row of gradients over all rounds, standardised, its sign turned.

    The item is first near 0, a hundredth of what ``start`` draws at most, and the rating R, so that
    every step's gradient is nearly 2 R^(3/2) or 0. Another user rates the item in both worlds; what
    that moves is known, and taken away.
    """

    system: HflSgdmf

    def __call__(self, world: int, size: int, rng: np.random.Generator) -> NDArray[np.float64]:
        system, bound, other = self.system, self.system.bound, 0.6 * self.system.bound
        ratings = np.array([[0.0 if world else bound], [other]], np.float32)
        first = start(np.full((1, 1), 0.01), bound)
        user = math.sqrt(bound)  # fits either rating best
        known = 2.0 * (user * float(first[0, 0]) - other) * user
        spread = system.sigma / math.sqrt(system.steps)

        def statistic(seen: NDArray[np.float64]) -> NDArray[np.float64]:
            return np.asarray((known - seen.mean(axis=(0, 2, 3))) / spread)

        return SideBySide(system=system, ratings=ratings, first=first).scores(size, rng, statistic)


def hfl_counted_steps(
    *,
    samples: int = 100_000,
    rounds: int = 10,
    noise_multiplier: float = 12.793,
    threshold: float = 3.0,
) -> Demonstration:
    """Proposition 3 accounts for the T' steps of one round where T T' are taken.

    T = 10 rounds of T' = 10 steps on all rows, z = 12.793: epsilon 1 claimed at delta = 1e-5.

    The claim is for ten steps, and a hundred are taken. The control is a training of one round, of
    which the proposition is right.
    """

    def side(violates: bool) -> Side:
        """A training of all ``rounds``; the control has one round."""
        taken = rounds if violates else 1
        system = replace(
            ONE_PARTY,
            rounds=taken,
            local_steps=10,
            unit="user",
            trim=1,
            rate=1.0,
            learning_rate=1e-6,
            noise_multiplier=noise_multiplier,
        )
        return Side(
            system=system,
            population=Population(n_users=100, n_items=1),
            worlds=("a user rated one item", "the user rated nothing"),
            scope=scope_of("user"),
            draw=Beyond(_AllRounds(system), threshold),
            statistic=(
                f"the item's mean gradient over {taken} rounds is {threshold:g} standard "
                "deviations beyond that of the other user"
            ),
            samples=samples,
            claim="Proposition 3",
            delta=system.delta,
            blockwise=False,  # copies are drawn a party at a time
        )

    return Demonstration.of(("26",), side)
