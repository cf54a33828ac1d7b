"""The direct route: the server sees all, and pays the local event."""

from __future__ import annotations

from accountants.events import PureDpEvent
from accountants.scope import Vantage
from targets.routes.direct import Direct


def test_the_way_is_worth_nothing() -> None:
    assert Direct().vantage is Vantage.SERVER
    assert Direct().event(PureDpEvent(2.0), 2.0, 500) == PureDpEvent(2.0)
