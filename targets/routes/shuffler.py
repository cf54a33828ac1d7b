"""A proxy permutes whole uploads and drops their senders."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedrec_auditor.accountants.events import dp
from fedrec_auditor.accountants.statements import Vantage


@dataclass(frozen=True, kw_only=True)
class Shuffler:
    """The server sees the uploads of a round unlinked: one user hides among the clones of it.

    An upload is shuffled as one message, so what counts is the epsilon of all of it: an upload is
    another's clone with probability e^-epsilon. Above 500 or so there is none among any number of
    users, and the accountant charges the local epsilon. The proxy is honest, and every sender of
    the round gives it one upload.
    """

    vantage = Vantage.SHUFFLED

    def event(self, local: dp.DpEvent, epsilon: float, n_senders: int) -> dp.DpEvent:
        """One shuffle of ``n_senders`` uploads; without a finite epsilon, the local event."""
        return dp.ShuffledDpEvent(epsilon, n_senders) if math.isfinite(epsilon) else local
