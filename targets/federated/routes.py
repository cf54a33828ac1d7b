"""Routes (ways of uploads to the server): direct, through a shuffler, or by secure aggregation."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedrec_auditor.accountants.events import dp
from fedrec_auditor.accountants.statements import Vantage
from fedrec_auditor.targets.federated.base import Route


@dataclass(frozen=True, kw_only=True)
class DirectRoute(Route):
    """Route of uploads that go directly to the server, each linked to its sender.

    The server sees every upload, so the route adds no privacy.
    """

    vantage = Vantage.SERVER


@dataclass(frozen=True, kw_only=True)
class SecureAggregation(Route):
    """Route by secure aggregation: the server sees only the sum of a round's uploads.

    Masks are ideal by assumption: participants are known, and nobody drops out. The accounting
    event is that of one sender's upload, without the other senders' noise.
    """

    # Devices mask their uploads, and the masks cancel in the sum. The masks are assumed to be
    # ideal. The sum is a function of the uploads.

    vantage = Vantage.AGGREGATE


@dataclass(frozen=True, kw_only=True)
class Shuffler:
    """Route through a proxy that permutes whole uploads and hides which client sent each of them.

    The proxy is assumed to be honest, with one upload from every sender of the round. If the
    epsilon of an upload is above about 500, shuffling does not lower it.
    """

    # An upload is hidden among its clones, the uploads of other users that have the same
    # distribution. An upload is shuffled as one message. The upload of another user is therefore a
    # clone with probability e^-epsilon, where epsilon is that of a whole upload. If this epsilon is
    # above about 500, no number of users yields a clone, and the accountant charges the epsilon of
    # the unshuffled upload.

    vantage = Vantage.SHUFFLED

    def get_event(self, local: dp.DpEvent, epsilon: float, n_senders: int) -> dp.DpEvent:
        """Returns the accounting event of a round in which ``n_senders`` uploads of ``epsilon`` are
        shuffled.

        ``local``: event of every sender's own upload.
        ``epsilon``: epsilon of one whole upload at delta 0. If it is infinite, the result is
            ``local``.
        """
        return dp.ShuffledDpEvent(epsilon, n_senders) if math.isfinite(epsilon) else local
