"""Uploads go to the server, each linked to its sender."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedrec_auditor.accountants.statements.scope import Vantage

if TYPE_CHECKING:
    from dp_accounting import DpEvent


@dataclass(frozen=True, kw_only=True)
class Direct:
    """The server sees every upload, so that the route adds no privacy."""

    vantage = Vantage.SERVER

    def event(self, local: DpEvent, epsilon: float, n_senders: int) -> DpEvent:
        """The local event: the server sees every upload."""
        return local
