"""Routes of uploads to the server: directly, through a shuffler, or summed."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedrec_auditor.accountants.events import dp
from fedrec_auditor.accountants.statements import Vantage
from fedrec_auditor.targets.federated.base import Route


@dataclass(frozen=True, kw_only=True)
class Direct(Route):
    """Uploads go to the server, each linked to its sender.

    The server sees every upload, so that the route adds no privacy."""

    vantage = Vantage.SERVER


@dataclass(frozen=True, kw_only=True)
class SecureAggregation(Route):
    """The server sees the sum of the uploads of a round and no more.

    Masks cancel in the sum of a round's uploads, which is all that the server learns.

    The masks are taken as ideal: who takes part is known, nobody drops out. The sum is a function
    of the uploads and is charged as they are; that other senders' noise is in it too is not used.
    """

    vantage = Vantage.AGGREGATE


@dataclass(frozen=True, kw_only=True)
class Shuffler:
    """A proxy permutes whole uploads and drops their senders.

    The server sees the uploads of a round unlinked: one user hides among the clones of it.

    An upload is shuffled as one message, so what counts is the epsilon of all of it: an upload is
    another's clone with probability e^-epsilon. Above 500 or so there is none among any number of
    users, and the accountant charges the local epsilon. The proxy is honest, and every sender of
    the round gives it one upload.
    """

    vantage = Vantage.SHUFFLED

    def event(self, local: dp.DpEvent, epsilon: float, n_senders: int) -> dp.DpEvent:
        """One shuffle of ``n_senders`` uploads; without a finite epsilon, the local event."""
        return dp.ShuffledDpEvent(epsilon, n_senders) if math.isfinite(epsilon) else local
