"""Optimal composition against the loss accountant, which shares no code with it."""

from __future__ import annotations

import math

import pytest
from dp_accounting import ComposedDpEvent, DpEvent, LaplaceDpEvent, SelfComposedDpEvent
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrec_auditor.accountants.events.leaves import BitFlipDpEvent, PureDpEvent, ShuffledDpEvent
from fedrec_auditor.accountants.methods.accounting_methods import Optimal, Pld, Pure
from tests.contracts.events import SCOPE, response, response_event


def epsilon(accountant: object, event: DpEvent, delta: float) -> float:
    return accountant.bound(event, delta=delta, scope=SCOPE).epsilon


@settings(max_examples=60)
@given(st.floats(0.001, 30), st.integers(1, 3000), st.floats(-12, -0.05).map(lambda x: 10**x))
def test_two_routes_to_like_responses_agree(local: float, count: int, delta: float) -> None:
    event = SelfComposedDpEvent(PureDpEvent(local), count)
    one, two = epsilon(Optimal(), event, delta), epsilon(Pld(), event, delta)
    assert one == pytest.approx(two, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("delta", [1e-9, 1e-6, 1e-2])
@pytest.mark.parametrize(("local", "count"), [(0.25, 2000), (2.5, 2000), (2.5, 50_000)])
def test_the_closed_form(local: float, count: int, delta: float) -> None:
    found = epsilon(Optimal(), SelfComposedDpEvent(response_event(local), count), delta)
    assert found == pytest.approx(response(local)(count, delta), rel=1e-9)


def test_two_routes_to_unlike_responses_agree() -> None:
    event = ComposedDpEvent(
        [
            SelfComposedDpEvent(response_event(0.25), 500),
            SelfComposedDpEvent(PureDpEvent(1.0), 20),
            SelfComposedDpEvent(BitFlipDpEvent(0.6, 0.4), 30),
        ]
    )
    for delta in (1e-8, 1e-5, 1e-2):
        one, two = epsilon(Optimal(), event, delta), epsilon(Pld(), event, delta)
        assert one * (1 - 1e-9) <= two <= one * 1.001


@pytest.mark.parametrize("delta", [1e-8, 1e-4, 0.3])
def test_whoever_knows_more_of_a_leaf_proves_less(delta: float) -> None:
    for leaf in (LaplaceDpEvent(2.0), BitFlipDpEvent(0.7, 0.2)):
        event = SelfComposedDpEvent(leaf, 50)
        assert epsilon(Pld(), event, delta) <= epsilon(Optimal(), event, delta) + 1e-9
        assert epsilon(Optimal(), event, delta) < epsilon(Pure(), event, delta)


def test_a_shuffled_report_is_charged_unshuffled() -> None:
    shuffled, alone = ShuffledDpEvent(1.5, 10_000), PureDpEvent(1.5)
    for delta in (0.0, 1e-6):
        assert epsilon(Optimal(), shuffled, delta) == epsilon(Optimal(), alone, delta)


def test_a_pure_epsilon_beyond_the_exponential() -> None:
    event = SelfComposedDpEvent(PureDpEvent(1e5), 1000)
    assert epsilon(Optimal(), event, 0.0) == 1e8
    assert epsilon(Optimal(), event, 1e-6) == pytest.approx(1e8 + math.log1p(-1e-6), rel=1e-15)
