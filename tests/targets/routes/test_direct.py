"""The direct route: the server sees all, and pays the local event."""

from __future__ import annotations

from fedrec_auditor.accountants.events.leaves import PureDpEvent
from fedrec_auditor.accountants.statements import Vantage
from fedrec_auditor.targets.routes.direct import Direct


def test_the_way_is_worth_nothing() -> None:
    assert Direct().vantage is Vantage.SERVER
    assert Direct().event(PureDpEvent(2.0), 2.0, 500) == PureDpEvent(2.0)
