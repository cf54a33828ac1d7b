from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrec_auditor.accountants.errors import AuditError, InputError
from fedrec_auditor.accountants.statements import (
    Adjacency,
    Bound,
    Claim,
    Horizon,
    Scope,
    Side,
    Unit,
    Vantage,
    guess_probability,
)

SCOPE = Scope(
    unit=Unit.BIT, adjacency=Adjacency.REPLACE, vantage=Vantage.SERVER, horizon=Horizon.REPORT
)


def bound(**changes: object) -> Bound:
    settings = {"epsilon": 1.0, "side": Side.UPPER, "scope": SCOPE, "source": "test"} | changes
    return Bound(**settings)


@pytest.mark.parametrize(
    ("epsilon", "least", "most"),
    [
        (49.7093214, 49.7093, 49.7094),
        (1.63199567, 1.63199, 1.632),
        (7_124_530.4, 7_124_530.0, 7_124_531.0),
        (1.23456e-5, 1.23e-5, 1.24e-5),
        (2.5, 2.5, 2.5),
        (0.0, 0.0, 0.0),
        (math.inf, math.inf, math.inf),
    ],
)
def test_what_is_told_of_a_bound_is_on_the_side_on_which_it_holds(
    epsilon: float, least: float, most: float
) -> None:
    assert bound(epsilon=epsilon, side=Side.LOWER).told == pytest.approx(least, rel=1e-12)
    assert bound(epsilon=epsilon, side=Side.UPPER).told == pytest.approx(most, rel=1e-12)


@pytest.mark.parametrize("epsilon", [-1e-9, -1.0, -math.inf, math.nan, "1", None])
def test_epsilon_is_a_number_not_below_zero(epsilon: Any) -> None:
    with pytest.raises(InputError, match=r"Expected epsilon in \[0, inf\], got epsilon="):
        bound(epsilon=epsilon)
    with pytest.raises(InputError, match="epsilon"):
        Claim(epsilon=epsilon, scope=SCOPE, statement="s", source="p")


@pytest.mark.parametrize("delta", [-1e-9, 1.0, 2.0, math.nan, math.inf, "0", None])
def test_delta_is_in_the_half_open_unit_interval(delta: Any) -> None:
    with pytest.raises(InputError, match=r"Expected delta in \[0, 1\), got delta="):
        bound(delta=delta)
    with pytest.raises(InputError, match="delta"):
        Claim(epsilon=1.0, delta=delta, scope=SCOPE, statement="s", source="p")


@pytest.mark.parametrize("confidence", [0.0, -0.5, 1.5, math.nan, "0.9", None])
def test_confidence_is_in_the_open_unit_interval_or_one(confidence: Any) -> None:
    with pytest.raises(InputError, match=r"Expected confidence in \(0, 1\), got confidence="):
        bound(confidence=confidence)


@pytest.mark.parametrize("epsilon", [0.0, 1.0, math.inf])
def test_zero_and_infinity_are_epsilons(epsilon: float) -> None:
    assert bound(epsilon=epsilon).epsilon == epsilon
    assert bound(confidence=0.95).confidence == 0.95
    assert bound().confidence == 1.0


def test_every_error_is_of_the_one_family() -> None:
    with pytest.raises(AuditError):
        bound(epsilon=-1.0)
    with pytest.raises(ValueError, match="epsilon"):
        bound(epsilon=-1.0)


def test_a_bound_is_frozen() -> None:
    with pytest.raises(AttributeError):
        bound().epsilon = 2.0


@given(st.floats(0, 30), st.floats(0, 0.999))
def test_the_guess_is_where_both_errors_of_the_trade_off_meet(epsilon: float, delta: float) -> None:
    """At error rate x = 1 - guess on both sides, x + e^eps x = 1 - delta (the region's corner)."""
    error = 1 - guess_probability(epsilon, delta)
    rounding = 2.0**-51 * (1 + math.exp(epsilon))
    assert math.isclose(error * (1 + math.exp(epsilon)), 1 - delta, abs_tol=rounding)
    assert 0.5 <= guess_probability(epsilon, delta) <= 1.0


@pytest.mark.parametrize(("epsilon", "guess"), [(0.0, 0.5), (math.log(3), 0.75), (math.inf, 1.0)])
def test_known_guesses(epsilon: float, guess: float) -> None:
    assert guess_probability(epsilon) == pytest.approx(guess)
    assert guess_probability(1e9) == 1.0


@given(st.floats(0, 800), st.floats(0, 800))
def test_a_larger_epsilon_never_lowers_the_guess(one: float, two: float) -> None:
    low, high = sorted((one, two))
    assert guess_probability(low) <= guess_probability(high)
