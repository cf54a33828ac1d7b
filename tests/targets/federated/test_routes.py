"""Routes of uploads: vantage and privacy event of each."""

from __future__ import annotations

import math

from dp_accounting import NonPrivateDpEvent

from fedrec_auditor.accountants.events.leaves import PureDpEvent, ShuffledDpEvent
from fedrec_auditor.accountants.methods.accounting_methods import Shuffle
from fedrec_auditor.accountants.statements import Horizon, Unit, Vantage, make_local_scope
from fedrec_auditor.targets.federated.routes import DirectRoute, SecureAggregation, Shuffler


def test_direct_routes_keep_the_local_event() -> None:
    assert DirectRoute().vantage is Vantage.SERVER
    assert DirectRoute().get_event(PureDpEvent(2.0), 2.0, 500) == PureDpEvent(2.0)


def test_sums_are_charged_as_their_terms() -> None:
    assert SecureAggregation().vantage is Vantage.AGGREGATE
    assert SecureAggregation().get_event(PureDpEvent(2.0), 2.0, 500) == PureDpEvent(2.0)


SCOPE = make_local_scope(Unit.USER, Vantage.SHUFFLED, Horizon.ROUND)


def charge(epsilon: float, senders: int) -> float:
    event = Shuffler().get_event(PureDpEvent(epsilon), epsilon, senders)
    return Shuffle().bound(event, delta=1e-6, scope=SCOPE).epsilon


def test_many_senders_amplify_small_uploads_and_few_do_not() -> None:
    assert Shuffler().vantage is Vantage.SHUFFLED
    assert charge(1.0, 10_000) < 0.2
    assert charge(1.0, 3) > 0.5


def test_uploads_of_large_epsilon_are_not_amplified() -> None:
    assert charge(7_124_530.0, 10**9) == 7_124_530.0


def test_whole_uploads_are_shuffled() -> None:
    assert Shuffler().get_event(PureDpEvent(3.0), 3.0, 50) == ShuffledDpEvent(3.0, 50)


def test_without_an_epsilon_the_local_event_stays() -> None:
    event = NonPrivateDpEvent()
    assert Shuffler().get_event(event, math.inf, 50) is event
