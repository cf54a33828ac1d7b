"""FedGNN: a message shows more than is claimed of it, and the repaired one does not.

The server's model pushes all numbers; where only the layer's first number is looked at, all items
are (t, 0) and the layer is 0, so that it alone has a gradient.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from fedrec_auditor.accountants.statements import Horizon, Unit, Vantage, any_pair
from fedrec_auditor.targets.papers.fedgnn.systems.fedgnn import FedGnn
from fedrec_auditor.targets.papers.fedgnn.systems.fedpergnn import FedPerGnn
from fedrec_auditor.targets.systems.base import Population
from fedrec_auditor.targets.transcript import Uploads
from tests.two_worlds import ReadUploads, shown, stated

ITEMS = 4
SMALL = FedGnn(dimension=2, pseudo=2, rounds=1)
ALL_ROWS = replace(SMALL, pseudo=ITEMS)
PUSHING = SMALL.pushing(ITEMS)
USERS = Population(n_users=2, n_items=ITEMS)
ONE = {"item": PUSHING["item"] * np.eye(1, 2), "gnn.A": 0 * PUSHING["gnn.A"]}
HELD = ((4.0, 4.0, 0.0, 0.0), (0.0, 4.0, 0.0, 0.0))
RATED = ((1.0, 0.0, 0.0, 0.0), (5.0, 0.0, 0.0, 0.0))


def is_sent(uploads: Uploads) -> NDArray[np.float64]:
    """Whether row 0 is sent."""
    return uploads.components["item"].sent(np.arange(len(uploads.users)))[:, 0].astype(float)


def first_number(uploads: Uploads) -> NDArray[np.float64]:
    return uploads.components["gnn.A"].dense(np.arange(len(uploads.users)))[:, 0, 0].astype(float)


def all_signs(uploads: Uploads) -> NDArray[np.float64]:
    """Signs of all 12 numbers, each as a low rating pushes it."""
    every = np.arange(len(uploads.users))
    items, layer = (uploads.components[n].dense(every) for n in ("item", "gnn.A"))
    return np.asarray(np.sign(items * [1.0, -1.0]).sum((1, 2)) + np.sign(layer).sum((1, 2)))


@pytest.mark.parametrize(
    ("system", "entry", "draw", "least"),
    [
        (SMALL, "29b", {"histories": HELD, "read": is_sent, "broadcast": PUSHING}, 4.0),
        (ALL_ROWS, "29b", {"histories": RATED, "read": all_signs, "broadcast": PUSHING}, 4.0),
        (
            FedPerGnn(dimension=2, rounds=1),
            "30",
            {"histories": RATED, "read": first_number, "broadcast": ONE},
            4.5,
        ),
    ],
)
def test_more_is_shown_than_claimed(
    system: FedGnn | FedPerGnn, entry: str, draw: dict, least: float
) -> None:
    unit = Unit.COORDINATE if entry == "30" else Unit.USER
    scope = any_pair(unit, Vantage.SERVER, Horizon.ROUND)
    bound = shown(ReadUploads(system=system, **draw), scope, 4_000)
    assert bound > max(least, stated(system, USERS, entry).epsilon)


@pytest.mark.parametrize("system", [ALL_ROWS, replace(ALL_ROWS, norm="l2")])
def test_one_number_shows_no_more_than_its_budget(system: FedGnn) -> None:
    scope = any_pair(Unit.COORDINATE, Vantage.SERVER, Horizon.ROUND)
    draw = ReadUploads(system=system, histories=RATED, read=first_number, broadcast=ONE)
    claimed = stated(system, USERS, "29").epsilon
    assert 0.5 * claimed < shown(draw, scope, 20_000) <= claimed
