"""Textbook composition against what is optimal."""

from __future__ import annotations

import math

import pytest
from dp_accounting import ComposedDpEvent, DpEvent, SelfComposedDpEvent
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrec_auditor.accountants.events.leaves import PureDpEvent
from fedrec_auditor.accountants.methods.advanced import Advanced
from fedrec_auditor.accountants.methods.optimal import Optimal
from fedrec_auditor.auditor.testing.parts.events import SCOPE

OLD = Advanced(form="dwork-rothblum-vadhan-2010")


def epsilon(accountant: object, event: DpEvent, delta: float) -> float:
    return accountant.bound(event, delta=delta, scope=SCOPE).epsilon


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.floats(1e-4, 40), st.integers(1, 5000)), min_size=1, max_size=2),
    st.floats(-300, -0.001).map(lambda x: 10**x),
)
def test_it_is_never_below_the_optimum(kinds: list[tuple[float, int]], delta: float) -> None:
    event = ComposedDpEvent([SelfComposedDpEvent(PureDpEvent(e), n) for e, n in kinds])
    best, new, old = (epsilon(a, event, delta) for a in (Optimal(), Advanced(), OLD))
    assert best <= new * (1 + 1e-9)
    assert new <= old * (1 + 1e-9)


def test_the_formulas_by_hand() -> None:
    """100 uses of 0.1 at delta 1e-5: sqrt(2 x 100 x 0.01 x ln 10^5) = 4.7985 and the mean."""
    event = SelfComposedDpEvent(PureDpEvent(0.1), 100)
    deviation = math.sqrt(2 * math.log(1e5))
    assert epsilon(OLD, event, 1e-5) == pytest.approx(deviation + 10 * math.expm1(0.1))
    mean = 10 * (math.exp(0.1) - 1) / (math.exp(0.1) + 1)
    assert epsilon(Advanced(), event, 1e-5) == pytest.approx(deviation + mean)
    assert epsilon(Optimal(), event, 1e-5) == pytest.approx(4.31, abs=0.2)


def test_at_a_large_delta_the_second_form_is_the_better() -> None:
    """ln(e + sqrt(V)/delta) against ln(1/delta), where V is small."""
    event = SelfComposedDpEvent(PureDpEvent(1e-3), 10_000)
    spent, delta = 10_000 * 1e-3 * math.tanh(5e-4), 1e-5
    other = spent + math.sqrt(2 * 0.01 * math.log(math.e + 0.1 / delta))
    assert epsilon(Advanced(), event, delta) == pytest.approx(other)
    assert other < spent + math.sqrt(2 * 0.01 * math.log(1 / delta))


def test_it_is_never_the_headline() -> None:
    assert Advanced.headline is False
    for delta in (0.0, 1e-6, 0.3):
        event = SelfComposedDpEvent(PureDpEvent(3.0), 10)
        assert epsilon(Advanced(), event, delta) <= 30.0
