"""Routes of uploads to the server: direct, through a shuffler, or by secure aggregation."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedrec_auditor.accountants.events import dp
from fedrec_auditor.accountants.statements import Vantage
from fedrec_auditor.targets.federated.base import Route


@dataclass(frozen=True, kw_only=True)
class Direct(Route):
    """Uploads go to the server, each linked to its sender.

    The server sees every upload, so that the route adds no privacy.
    """

    vantage = Vantage.SERVER


@dataclass(frozen=True, kw_only=True)
class SecureAggregation(Route):
    """The server sees only the sum of the uploads of a round.

    Masks cancel in the sum of a round's uploads, and the server learns nothing else.

    The masks are assumed ideal: the participants are known, and nobody drops out. The sum is a
    function of the uploads, and its event is that of the uploads; the noise of other senders in the
    sum is not used.
    """

    vantage = Vantage.AGGREGATE


@dataclass(frozen=True, kw_only=True)
class Shuffler:
    """A proxy permutes whole uploads and drops their senders.

    The server sees the uploads of a round unlinked: one user hides among the clones of the user's
    own upload.

    An upload is shuffled as one message, so that the epsilon of the whole upload counts: another
    upload is its clone with probability e^-epsilon. Above an epsilon of about 500 there is no clone
    among any number of users, and the accountant charges the local epsilon. The proxy is honest,
    and every sender of the round gives it one upload.
    """

    vantage = Vantage.SHUFFLED

    def event(self, local: dp.DpEvent, epsilon: float, n_senders: int) -> dp.DpEvent:
        """Event of one shuffle of ``n_senders`` uploads; without a finite epsilon, ``local``."""
        return dp.ShuffledDpEvent(epsilon, n_senders) if math.isfinite(epsilon) else local
