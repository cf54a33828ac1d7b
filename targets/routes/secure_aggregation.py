"""The server sees the sum of the uploads of a round and no more."""

from __future__ import annotations

from dataclasses import dataclass

from fedrec_auditor.accountants.statements import Vantage
from fedrec_auditor.targets.routes.base import Route


@dataclass(frozen=True, kw_only=True)
class SecureAggregation(Route):
    """Masks cancel in the sum of a round's uploads, which is all that the server learns.

    The masks are taken as ideal: who takes part is known, nobody drops out. The sum is a function
    of the uploads and is charged as they are; that other senders' noise is in it too is not used.
    """

    vantage = Vantage.AGGREGATE
