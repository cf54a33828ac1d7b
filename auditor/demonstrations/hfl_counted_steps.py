"""HFL-SGDMF: Proposition 3 accounts for the T' steps of one round where T T' are taken."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from auditor.demonstrations._asked import claim_in
from auditor.demonstrations._side_by_side import SideBySide
from auditor.demonstrations.base import Contest
from targets.systems._noisy_horizontal import presence
from targets.systems._sgd_mf import start
from targets.systems.base import Population
from targets.systems.hfl_sgdmf import HflSgdmf

_SCOPE, _DELTA = presence("user"), 1e-5


@dataclass(frozen=True, slots=True)
class _AllRounds:
    """The mean of a rating's row of gradients over all rounds, in units of a step's noise.

    The item is first near 0, a hundredth of what ``start`` draws at most, and the rating R, so that
    every step's gradient is nearly 2 R^(3/2) or 0. Another user rates the item in both worlds.
    """

    system: HflSgdmf

    def __call__(self, world: int, size: int, rng: np.random.Generator) -> NDArray[np.float64]:
        bound, sigma = self.system.bound, self.system.sigma
        ratings = np.array([[0.0 if world else bound], [0.6 * bound]], np.float32)
        first = start(np.full((1, 1), 0.01), bound)
        runs = SideBySide(system=self.system, ratings=ratings, first=first)
        return runs.scores(size, rng, lambda seen: -seen.mean(axis=(0, 2, 3)) / sigma)


@dataclass(frozen=True, kw_only=True)
class HflCountedSteps:
    """T = 10 rounds of T' = 10 steps on all rows, z = 15.5: epsilon 1 claimed at delta = 1e-5.

    The claim is for ten steps, and a hundred are taken. The control is a training of one round, of
    which the proposition is right.
    """

    samples: int = 100_000
    rounds: int = 10
    noise_multiplier: float = 15.5

    target = "hfl-sgdmf"
    blockwise = False  # copies are drawn a party at a time
    entries = ("26",)

    def violation(self) -> Contest:
        """All rounds."""
        return self._contest(self.rounds)

    def control(self) -> Contest:
        """One round."""
        return self._contest(1)

    def _contest(self, rounds: int) -> Contest:
        population = Population(n_users=100, n_items=1)
        system = HflSgdmf(
            factors=1,
            rounds=rounds,
            local_steps=10,
            parties=1,
            tuning=0,
            delta=_DELTA,
            unit="user",
            trim=1,
            rate=1.0,
            learning_rate=1e-6,
            noise_multiplier=self.noise_multiplier,
        )
        claim = claim_in(system, population, _SCOPE, _DELTA, place="Proposition 3")
        return Contest(
            system=system,
            claim=claim,
            scope=_SCOPE,
            delta=_DELTA,
            worlds=("a user rated one item", "the user rated nothing"),
            statistic=f"mean gradient of the item over {rounds} rounds",
            sample=_AllRounds(system),
            samples=self.samples,
            population=population,
        )
