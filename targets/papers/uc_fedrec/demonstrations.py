"""The noise of UC-FedRec's baseline, if it is put back, against the way that ten steps go."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.statements.scope import Horizon, Unit, Vantage, any_pair
from fedrec_auditor.targets.declarations.demonstration import (
    Demonstration,
    DistinguishingGame,
    ReadUploads,
)
from fedrec_auditor.targets.papers.uc_fedrec.systems.uc_fedrec import UcFedRec
from fedrec_auditor.targets.systems.base import Population
from fedrec_auditor.targets.transcript import Uploads

_HELD = ((5.0, 0.0), (0.0, 5.0))
_FAR = 1e4
"""Item vectors far apart: every gradient is clipped, and is of the user's row."""
_MODEL = {
    "user": np.zeros((1, 1), np.float32),
    "item": np.array([[_FAR], [-_FAR]], np.float32),
}


def _row(uploads: Uploads) -> NDArray[np.float64]:
    return np.asarray(
        uploads.components["user"].dense(np.arange(len(uploads.users)))[:, 0, 0], float
    )


def steps(*, samples: int = 100_000) -> Demonstration:
    """Ten steps the same way move a number far beyond noise that is made for one."""

    def side(violates: bool) -> DistinguishingGame:
        released = UcFedRec(noise="gaussian", dimension=1, batch=1, rounds=1)
        system = released if violates else replace(released, covers="training")
        return DistinguishingGame(
            system=system,
            population=Population(n_users=2, n_items=2),
            worlds=("item 0 is met", "item 1 is met"),
            scope=any_pair(Unit.COORDINATE, Vantage.SERVER, Horizon.ROUND),
            draw=ReadUploads(system=system, histories=_HELD, read=_row, broadcast=_MODEL),
            statistic="the number of the user's row",
            samples=samples,
            delta=system.delta,
            claim="33",
        )

    return Demonstration.of(("33",), side)


DEMONSTRATIONS = {"uc-fedrec-steps": steps}
