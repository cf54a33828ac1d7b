"""Every route to the server: who sees what, and what it costs."""

from __future__ import annotations

import math

import pytest
from dp_accounting import DpEvent, LaplaceDpEvent, NonPrivateDpEvent, SelfComposedDpEvent

from fedrec_auditor.accountants.events.leaves import PureDpEvent
from fedrec_auditor.accountants.statements.scope import Horizon, Unit, Vantage, any_pair
from fedrec_auditor.auditor.judging.accounting import all_accountants, least_of_event
from fedrec_auditor.targets.routes.base import Route
from tests.contracts.laws import members

ROUTES: dict[str, Route] = members("routes")


@pytest.fixture(params=ROUTES)
def route(request: pytest.FixtureRequest) -> Route:
    return ROUTES[request.param]


def _proved(event: DpEvent, route: Route, delta: float) -> float:
    scope = any_pair(Unit.USER, route.vantage, Horizon.ROUND)
    bound = least_of_event(event, scope, delta, all_accountants())
    assert bound is not None, f"no accountant reads {event}"
    return bound.epsilon


def test_vantage(route: Route) -> None:
    """The vantage is none at which peers see a model."""
    expected = (Vantage.SERVER, Vantage.SHUFFLED, Vantage.AGGREGATE)
    assert route.vantage in expected, f"a vantage of {route.vantage}"


def test_never_dearer(route: Route) -> None:
    """The route never costs more than the upload, for any epsilon and number of senders."""
    for epsilon in (0.1, 4.0, 7e6):
        for senders in (1, 2, 1000):
            event = route.event(PureDpEvent(epsilon), epsilon, senders)
            for delta, slack in ((0.0, 1e-12), (1e-6, 1e-9)):
                proved = _proved(event, route, delta)
                assert proved <= epsilon * (1 + slack), (
                    f"{senders} senders: {proved} at delta {delta}, the upload alone {epsilon}"
                )


def test_single_sender(route: Route) -> None:
    """A single sender has nobody to hide among."""
    event = route.event(PureDpEvent(2.0), 2.0, 1)
    proved = _proved(event, route, 1e-9)
    assert abs(proved - 2.0) <= 2e-3, f"{proved} for one sender whose upload costs 2"


def test_unprotected(route: Route) -> None:
    """The route does not protect what is not protected."""
    event = route.event(NonPrivateDpEvent(), math.inf, 1000)
    proved = _proved(event, route, 1e-6)
    assert proved == math.inf, f"{proved} for uploads without protection"


def test_rounds_compose(route: Route) -> None:
    """Two rounds cost no less than one, and twice as much at delta 0."""
    once = route.event(LaplaceDpEvent(1.0), 1.0, 50)
    twice = SelfComposedDpEvent(once, 2)
    assert _proved(twice, route, 1e-6) >= _proved(once, route, 1e-6), "two rounds are cheaper"
    two, one = _proved(twice, route, 0.0), _proved(once, route, 0.0)
    assert two == 2 * one or abs(two - 2 * one) <= 2e-6 * one, f"one round {one}, two {two}"
