"""Uploads go to the server, each linked to its sender."""

from __future__ import annotations

from dataclasses import dataclass

from fedrec_auditor.accountants.statements import Vantage
from fedrec_auditor.targets.routes.base import Route


@dataclass(frozen=True, kw_only=True)
class Direct(Route):
    """The server sees every upload, so that the route adds no privacy."""

    vantage = Vantage.SERVER
