"""FMF-LDP: k epsilon is what a round costs; a training of T rounds costs T times as much."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.statements.scope import Horizon, Unit, Vantage, any_pair
from fedrec_auditor.targets.components import Reports
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.declarations.demonstration import Demonstration, DistinguishingGame
from fedrec_auditor.targets.papers.fmf_ldp.systems.fmf_ldp import FmfLdp
from fedrec_auditor.targets.systems.base import Population

_BLOCK = 1 << 18  # messages made at once


@dataclass(frozen=True, slots=True)
class _Positives:
    """How many of one user's reports in ``rounds`` rounds carry +B.

    The server broadcasts the same V each time (``opposite_rows``), under which the two users'
    gradients are projected to opposite corners, so that every report tells as much as one can.
    """

    system: FmfLdp
    rounds: int

    def __call__(self, world: int, size: int, rng: np.random.Generator) -> NDArray[np.float64]:
        half = self.system.corner_items()
        profile = Interactions.of(np.repeat(np.eye(2)[[world]], half, axis=1), name="neighbours")
        broadcast = {"items": self.system.opposite_rows(2 * half)}
        found, step = np.empty(size), max(1, _BLOCK // self.rounds)
        for start in range(0, size, step):
            runs = min(step, size - start)
            sent = self.system.upload(profile, broadcast, rng, runs * self.rounds)
            reports = sent.components["reports"]
            assert isinstance(reports, Reports)
            found[start : start + runs] = reports.positive.reshape(runs, -1).sum(axis=1)
        return found


def fmf_ldp_rounds(
    *, samples: int = 2_000_000, epsilon: float = 0.25, reports: int = 4, rounds: int = 10
) -> Demonstration:
    """k epsilon is what a round costs; a training of T rounds costs T times as much.

    k = 4 reports of epsilon 0.25 in each of T = 10 rounds: claimed 1, spent 10, shown above 5.

    Scaled down from 250 against 5000, for no count certifies more than about ln(samples); what is
    shown is that the rounds add up. The control is one round, for which the claim is right.
    """

    def side(violates: bool) -> DistinguishingGame:
        """All rounds of a training; the control looks at one."""
        horizon, seen = (Horizon.TRAINING, rounds) if violates else (Horizon.ROUND, 1)
        system = FmfLdp(epsilon=epsilon, reports=reports, rounds=rounds, factors=1)
        population = Population(n_users=2, n_items=2 * system.corner_items())
        return DistinguishingGame(
            system=system,
            population=population,
            worlds=("the first half of the catalogue", "the second half of the catalogue"),
            scope=any_pair(Unit.USER, Vantage.SERVER, horizon),
            draw=_Positives(system, seen),
            statistic=f"how many of the {seen * reports} reports carry +B",
            samples=samples,
        )

    return Demonstration.of(("2b", "2c"), side)


DEMONSTRATIONS = {"fmf-ldp-rounds": fmf_ldp_rounds}
