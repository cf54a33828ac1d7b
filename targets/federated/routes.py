"""Routes of uploads to the server: direct, through a shuffler, or by secure aggregation."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedrec_auditor.accountants.events import dp
from fedrec_auditor.accountants.statements import Vantage
from fedrec_auditor.targets.federated.base import Route


@dataclass(frozen=True, kw_only=True)
class Direct(Route):
    """Uploads go directly to the server, each linked to its sender.

    The server sees every upload, so the route adds no privacy.
    """

    vantage = Vantage.SERVER


@dataclass(frozen=True, kw_only=True)
class SecureAggregation(Route):
    """Secure aggregation shows the server only the sum of the uploads of a round.

    Masks cancel in the sum of a round's uploads, and the server learns nothing else.

    The masks are assumed to be ideal: the participants are known, and nobody drops out. The sum is
    a function of the uploads, so its privacy event is that of the uploads. The noise of other
    senders in the sum is not counted.
    """

    vantage = Vantage.AGGREGATE


@dataclass(frozen=True, kw_only=True)
class Shuffler:
    """A proxy permutes whole uploads and hides which client sent each of them.

    The server cannot link the uploads of a round to senders. An upload is hidden among its clones,
    the uploads of other users that are distributed in the same way.

    An upload is shuffled as one message, so the epsilon of the whole upload counts: another upload
    is a clone with probability e^-epsilon. If epsilon is above about 500, no number of users yields
    a clone, and the accountant charges the local epsilon. The proxy is assumed to be honest, and to
    receive one upload from every sender of the round.
    """

    vantage = Vantage.SHUFFLED

    def event(self, local: dp.DpEvent, epsilon: float, n_senders: int) -> dp.DpEvent:
        """Returns the event of shuffling ``n_senders`` uploads, or ``local`` without an epsilon.

        An upload has no pure epsilon if ``epsilon`` is infinite.
        """
        return dp.ShuffledDpEvent(epsilon, n_senders) if math.isfinite(epsilon) else local
