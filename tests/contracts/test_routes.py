"""What every route to the server must keep: run over all of them, plug-ins included."""

from __future__ import annotations

import math

import pytest
from dp_accounting import LaplaceDpEvent, NonPrivateDpEvent, SelfComposedDpEvent

from fedrec_auditor.accountants.events.leaves import PureDpEvent
from fedrec_auditor.accountants.statements.scope import Horizon, Unit, Vantage, any_pair
from fedrec_auditor.auditor.accounting import all_accountants
from fedrec_auditor.auditor.families import FAMILIES
from fedrec_auditor.targets.routes.base import Route


@pytest.fixture(params=FAMILIES["routes"].names())
def route(request: pytest.FixtureRequest) -> Route:
    made: Route = FAMILIES["routes"].member(request.param)()
    return made


def proved(event: object, route: Route, delta: float) -> float:
    scope = any_pair(Unit.USER, route.vantage, Horizon.ROUND)
    bounds = [
        a.bound(event, delta=delta, scope=scope) for a in all_accountants() if a.supports(event)
    ]
    assert bounds, "no accountant reads the event of this route"
    return min(bound.epsilon for bound in bounds)


def test_its_vantage_is_no_model_seen_by_peers(route: Route) -> None:
    assert route.vantage in (Vantage.SERVER, Vantage.SHUFFLED, Vantage.AGGREGATE)


@pytest.mark.parametrize("senders", [1, 2, 1000])
@pytest.mark.parametrize("epsilon", [0.1, 4.0, 7e6])
def test_the_way_never_costs_more_than_the_upload(
    route: Route, epsilon: float, senders: int
) -> None:
    event = route.event(PureDpEvent(epsilon), epsilon, senders)
    assert proved(event, route, 0.0) <= epsilon * (1 + 1e-12)
    assert proved(event, route, 1e-6) <= epsilon * (1 + 1e-9)


def test_a_single_sender_hides_in_nobody(route: Route) -> None:
    event = route.event(PureDpEvent(2.0), 2.0, 1)
    assert proved(event, route, 1e-9) == pytest.approx(2.0, rel=1e-3)


def test_what_is_not_protected_is_not_protected_by_the_way(route: Route) -> None:
    event = route.event(NonPrivateDpEvent(), math.inf, 1000)
    assert proved(event, route, 1e-6) == math.inf


def test_rounds_compose(route: Route) -> None:
    once = route.event(LaplaceDpEvent(1.0), 1.0, 50)
    twice = SelfComposedDpEvent(once, 2)
    assert proved(twice, route, 1e-6) >= proved(once, route, 1e-6)
    assert proved(twice, route, 0.0) == pytest.approx(2 * proved(once, route, 0.0))
