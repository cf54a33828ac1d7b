"""HFL-SGDMF: Proposition 3 accounts for the T' steps of one round where T T' are taken."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.auditor.demonstrations.base import DistinguishingGame, PairedGames
from fedrec_auditor.auditor.demonstrations.parts.matrix_factorization import Beyond
from fedrec_auditor.auditor.demonstrations.parts.side_by_side import ONE_PARTY, SideBySide
from fedrec_auditor.targets.systems.base import Population
from fedrec_auditor.targets.systems.federated_mf.hfl_sgdmf import HflSgdmf
from fedrec_auditor.targets.systems.federated_mf.parts.party_mf import scope_of
from fedrec_auditor.targets.systems.federated_mf.parts.sgd_mf import start


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


@dataclass(frozen=True, kw_only=True)
class HflCountedSteps(PairedGames):
    """T = 10 rounds of T' = 10 steps on all rows, z = 12.793: epsilon 1 claimed at delta = 1e-5.

    The claim is for ten steps, and a hundred are taken. The control is a training of one round, of
    which the proposition is right.
    """

    samples: int = 100_000
    rounds: int = 10
    noise_multiplier: float = 12.793
    threshold: float = 3.0

    target = "hfl-sgdmf"
    entries = ("26",)

    def game(self, violates: bool) -> DistinguishingGame:
        """A training of all ``rounds``; the control has one round."""
        rounds = self.rounds if violates else 1
        system = replace(
            ONE_PARTY,
            rounds=rounds,
            local_steps=10,
            unit="user",
            trim=1,
            rate=1.0,
            learning_rate=1e-6,
            noise_multiplier=self.noise_multiplier,
        )
        return DistinguishingGame.against(
            system,
            Population(n_users=100, n_items=1),
            names=("a user rated one item", "the user rated nothing"),
            scope=scope_of("user"),
            draw=Beyond(_AllRounds(system), self.threshold),
            statistic=(
                f"the item's mean gradient over {rounds} rounds is {self.threshold:g} standard "
                "deviations beyond that of the other user"
            ),
            samples=self.samples,
            delta=system.delta,
            place="Proposition 3",
            blockwise=False,  # copies are drawn a party at a time
        )
