"""Utility of a system's recommendations, measured on held-out data by the evaluation protocol of
the system's paper.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fedrec_auditor.auditor.utility import held_out_ratings, held_out_users, leave_last_out
from fedrec_auditor.auditor.utility.held_out import HeldOutData
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.systems.base import HoldOut, UtilityTest

_PROTOCOLS: dict[HoldOut, Callable[[Interactions, np.random.Generator], HeldOutData]] = {
    HoldOut.LEAVE_LAST_OUT: leave_last_out.hold_out,
    HoldOut.HELD_OUT_USERS: held_out_users.hold_out,
    HoldOut.HELD_OUT_RATINGS: held_out_ratings.hold_out,
    HoldOut.NOTHING: lambda interactions, _: HeldOutData(training_data=interactions),
}


def hold_out(
    evaluation: UtilityTest, interactions: Interactions, rng: np.random.Generator
) -> HeldOutData:
    """Splits ``interactions`` into training data and held-out data, by the protocol
    ``evaluation`` of a system.

    ``rng`` draws the held-out data. Raises InputError if there are too few interactions.
    """
    return _PROTOCOLS[evaluation.split](interactions, rng)
