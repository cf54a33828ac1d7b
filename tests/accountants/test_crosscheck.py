"""Tests of the cross-check: its floor is correct, and an accountant below it is an error."""

from __future__ import annotations

import math

import pytest
from dp_accounting import (
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    PoissonSampledDpEvent,
    RandomizedResponseDpEvent,
    SelfComposedDpEvent,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrec_auditor.accountants.crosscheck import compute_min_epsilon, cross_check
from fedrec_auditor.accountants.errors import AuditError
from fedrec_auditor.accountants.events.leaves import BitFlipDpEvent, PureDpEvent, ShuffledDpEvent
from fedrec_auditor.accountants.methods.accounting_methods import Optimal, Pld, Pure, Rdp
from fedrec_auditor.accountants.methods.base import Accountant
from fedrec_auditor.accountants.statements import Bound, Side
from tests.contracts.events import MILLIONS, SCOPE, gaussian, response, response_event

TIGHT = {
    "gaussians": SelfComposedDpEvent(GaussianDpEvent(5.0), 30),
    "responses": SelfComposedDpEvent(response_event(0.25), 2000),
    "pure": SelfComposedDpEvent(PureDpEvent(1.5), 7),
    "symmetric flips": SelfComposedDpEvent(BitFlipDpEvent(0.75, 0.25), 40),
    "one response": RandomizedResponseDpEvent(0.3, 2),
}
LOOSE = {
    "mixture": ComposedDpEvent([GaussianDpEvent(2.0), response_event(1.0), LaplaceDpEvent(1.0)]),
    "flips": SelfComposedDpEvent(BitFlipDpEvent(0.7, 0.2), 40),
    "laplaces": SelfComposedDpEvent(LaplaceDpEvent(2.0), 40),
}
ACCOUNTANTS: tuple[Accountant, ...] = (Pure(), Optimal(), Pld(), Rdp())


@pytest.mark.parametrize("delta", [0.0, 1e-9, 1e-5, 0.1])
@pytest.mark.parametrize("event", [*TIGHT.values(), *LOOSE.values()], ids=[*TIGHT, *LOOSE])
def test_no_accountant_is_below_the_floor(event: DpEvent, delta: float) -> None:
    bounds = [a.bound(event, delta=delta, scope=SCOPE) for a in ACCOUNTANTS if a.supports(event)]
    cross_check(event, bounds)
    if event in TIGHT.values():
        best = min(bound.epsilon for bound in bounds)
        assert compute_min_epsilon(event, delta) == pytest.approx(best, rel=1e-6, abs=1e-9)


MECHANISMS = st.one_of(
    st.floats(0.3, 300).map(GaussianDpEvent),
    st.floats(0.1, 30).map(LaplaceDpEvent),
    st.floats(0.001, 8).map(PureDpEvent),
    st.floats(0.01, 1.0).map(lambda noise: RandomizedResponseDpEvent(noise, 2)),
    st.builds(BitFlipDpEvent, st.floats(0.01, 0.99), st.floats(0.01, 0.99)),
)
COMPOSED = st.lists(st.tuples(MECHANISMS, st.integers(1, 3000)), min_size=1, max_size=3).map(
    lambda parts: ComposedDpEvent([SelfComposedDpEvent(leaf, n) for leaf, n in parts])
)


@settings(max_examples=25)
@given(COMPOSED, st.one_of(st.just(0.0), st.floats(-11, -0.3).map(lambda x: 10**x)))
def test_accountants_agree_with_each_other_and_the_floor(event: DpEvent, delta: float) -> None:
    """An accountant that uses less of an event never proves more; the loss accountant uses all."""
    bounds = {
        type(a): a.bound(event, delta=delta, scope=SCOPE) for a in ACCOUNTANTS if a.supports(event)
    }
    cross_check(event, bounds.values())
    for less, more in ((Optimal, Pure), (Pld, Optimal), (Pld, Rdp)):
        if less in bounds and more in bounds:
            # The loss accountant works on a grid, and may exceed an enumerated epsilon by this
            # much.
            slack = 1e-2 if less is Pld else 1e-6
            low, high = bounds[less].epsilon, bounds[more].epsilon
            assert low <= high * (1 + slack) + slack, f"{less.__name__} is above {more.__name__}"


def test_the_floor_equals_closed_forms() -> None:
    for name, form in (
        ("gaussians", gaussian(5.0)(30, 1e-5)),
        ("responses", response(0.25)(2000, 1e-5)),
    ):
        assert compute_min_epsilon(TIGHT[name], 1e-5) == pytest.approx(form, abs=1e-9)
    assert compute_min_epsilon(SelfComposedDpEvent(LaplaceDpEvent(2.0), 40), 0.0) == 20.0
    assert math.isinf(compute_min_epsilon(LOOSE["mixture"], 0.0))


def test_the_floor_of_other_events_is_0() -> None:
    for event in (
        PoissonSampledDpEvent(0.1, GaussianDpEvent(1.0)),
        ShuffledDpEvent(1.0, 100),
        BitFlipDpEvent(1.0, 0.4),
    ):
        assert compute_min_epsilon(event, 1e-6) == 0.0


@pytest.mark.parametrize("wrong", [0.999, 0.5, 0.0])
@pytest.mark.parametrize("event", TIGHT.values(), ids=TIGHT)
def test_a_bound_below_the_floor_stops_the_audit(event: DpEvent, wrong: float) -> None:
    bound = Bound(
        epsilon=wrong * compute_min_epsilon(event, 1e-5),
        delta=1e-5,
        side=Side.UPPER,
        scope=SCOPE,
        source="a broken accountant",
    )
    with pytest.raises(AuditError, match="a broken accountant"):
        cross_check(event, [bound])


@pytest.mark.parametrize("event", MILLIONS, ids=str)
def test_extremes_pass_the_cross_check(event: DpEvent) -> None:
    for delta in (0.0, 1e-300, 1e-6, 0.9):
        bounds = [
            a.bound(event, delta=delta, scope=SCOPE) for a in ACCOUNTANTS if a.supports(event)
        ]
        cross_check(event, bounds)
        assert compute_min_epsilon(event, delta) >= 0
