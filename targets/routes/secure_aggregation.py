"""The server sees the sum of the uploads of a round and no more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedrec_auditor.accountants.statements.scope import Vantage

if TYPE_CHECKING:
    from dp_accounting import DpEvent


@dataclass(frozen=True, kw_only=True)
class SecureAggregation:
    """Masks cancel in the sum of a round's uploads, which is all that the server learns.

    The masks are taken as ideal: who takes part is known, nobody drops out. The sum is a function
    of the uploads and is charged as they are; that other senders' noise is in it too is not used.
    """

    vantage = Vantage.AGGREGATE

    def event(self, local: DpEvent, epsilon: float, n_senders: int) -> DpEvent:
        """The local event: a sum is a function of the uploads."""
        return local
