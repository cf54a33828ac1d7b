"""Nothing: the device sends its trained model as it is."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedrec_auditor.accountants.statements import Unit
from fedrec_auditor.targets.protections.base import Promise, Protection


@dataclass(frozen=True, kw_only=True)
class Unprotected(Protection):
    """No clipping, no noise; what is offered is that data stay on the device.

    A row of the item table that the device did not train on comes back as it was broadcast, to the
    last bit, so the upload alone says which items are not in the history.
    """

    def promises(self, groups: tuple[str, ...]) -> tuple[Promise, ...]:
        """One promise without an epsilon."""
        return (
            Promise(
                epsilon=math.inf,
                unit=Unit.USER,
                statement=(
                    "No epsilon is promised; what is offered is that interactions and features "
                    "stay on the device and only model parameters are sent."
                ),
            ),
        )
