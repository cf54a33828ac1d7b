"""What every route from the devices to the server offers a federated system."""

from __future__ import annotations

from typing import Protocol

from fedrec_auditor.accountants.events import dp
from fedrec_auditor.accountants.statements import Vantage


class Route(Protocol):
    """Who sees what of the uploads, and the event that an accountant charges for it."""

    @property
    def vantage(self) -> Vantage:
        """The strongest vantage of anyone who keeps to the protocol."""
        ...

    def event(self, local: dp.DpEvent, epsilon: float, n_senders: int) -> dp.DpEvent:
        """What this vantage is charged for one round in which every sender pays ``local``.

        ``epsilon`` is the pure epsilon of one whole upload, infinite where there is none. A
        subclass inherits the local event: what is seen is a function of the uploads.
        """
        return local
