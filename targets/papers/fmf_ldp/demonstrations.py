"""FMF-LDP: k epsilon is what a round costs; a training of T rounds costs T times as much."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.statements.scope import Horizon, Unit, Vantage, any_pair
from fedrec_auditor.targets.components import Reports
from fedrec_auditor.targets.declarations.demonstration import (
    Demonstration,
    DistinguishingGame,
    ReadUploads,
)
from fedrec_auditor.targets.papers.fmf_ldp.systems.fmf_ldp import FmfLdp
from fedrec_auditor.targets.systems.base import Population
from fedrec_auditor.targets.transcript import Uploads


def _positives(reports: int, uploads: Uploads) -> NDArray[np.float64]:
    """How many of so many reports of a user carry +B."""
    sent = uploads.components["reports"]
    assert isinstance(sent, Reports)
    return np.asarray(sent.positive.reshape(-1, reports).sum(axis=1), np.float64)


def fmf_ldp_rounds(
    *, samples: int = 2_000_000, epsilon: float = 0.25, reports: int = 4, rounds: int = 10
) -> Demonstration:
    """k epsilon is what a round costs; a training of T rounds costs T times as much.

    k = 4 reports of epsilon 0.25 in each of T = 10 rounds: claimed 1, spent 10, shown above 5.

    Scaled down from 250 against 5000, for no count certifies more than about ln(samples); what is
    shown is that the rounds add up. The server broadcasts the same V each time (``opposite_rows``),
    under which the two users' gradients are projected to opposite corners, so that every report
    tells as much as one can. The control is one round, for which the claim is right.
    """

    def side(violates: bool) -> DistinguishingGame:
        """All rounds of a training; the control looks at one."""
        horizon, seen = (Horizon.TRAINING, rounds) if violates else (Horizon.ROUND, 1)
        system = FmfLdp(epsilon=epsilon, reports=reports, rounds=rounds, factors=1)
        half = system.corner_items()
        first, second = np.repeat(np.eye(2), half, axis=1)
        return DistinguishingGame(
            system=system,
            population=Population(n_users=2, n_items=2 * half),
            worlds=("the first half of the catalogue", "the second half of the catalogue"),
            scope=any_pair(Unit.USER, Vantage.SERVER, horizon),
            draw=ReadUploads(
                system=system,
                histories=(first, second),
                read=partial(_positives, seen * reports),
                broadcast={"items": system.opposite_rows(2 * half)},
                each=seen,
                block=1 << 18,
            ),
            statistic=f"how many of the {seen * reports} reports carry +B",
            samples=samples,
        )

    return Demonstration.of(("2b", "2c"), side)


DEMONSTRATIONS = {"fmf-ldp-rounds": fmf_ldp_rounds}
