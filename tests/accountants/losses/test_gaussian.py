"""The Gaussian curve and its inverse against 700 digits."""

from __future__ import annotations

import math

import mpmath
import pytest
from dp_accounting import get_epsilon_gaussian
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrec_auditor.accountants.losses.gaussian import gaussian_epsilon, log_gaussian_delta


def curve(epsilon: float, mu: float) -> mpmath.mpf:
    """Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu), term by term."""

    def phi(x: mpmath.mpf) -> mpmath.mpf:
        return mpmath.erfc(-x / mpmath.sqrt(2)) / 2

    e, m = mpmath.mpf(epsilon), mpmath.mpf(mu)
    return phi(m / 2 - e / m) - mpmath.exp(e) * phi(-m / 2 - e / m)


@settings(max_examples=60, deadline=None)
@given(st.floats(-3, 4).map(lambda x: 10**x), st.floats(-20, 38))
def test_the_curve_is_right_to_many_digits(mu: float, a: float) -> None:
    epsilon = max(0.0, mu * (mu / 2 + a))
    with mpmath.workdps(700):
        truth = float(mpmath.log(curve(epsilon, mu)))
    # Epsilon itself is rounded, and ln delta falls by a/mu and more for each unit of it.
    slope = (2 + abs(epsilon / mu - mu / 2)) / mu
    allowed = 2e-15 * (1 + a * a) * (1 + (1 + abs(a)) / mu)
    allowed += 1e-12 + 4e-16 * max(1.0, epsilon) * slope
    assert log_gaussian_delta(epsilon, mu) == pytest.approx(truth, rel=1e-13, abs=allowed)


@settings(max_examples=30, deadline=None)
@given(
    st.floats(-5, 4).map(lambda x: 10**x),
    st.one_of(st.floats(-300, -1e-3).map(lambda x: 10**x), st.floats(1e-3, 0.999)),
)
def test_the_inverse_is_right(mu: float, delta: float) -> None:
    epsilon = gaussian_epsilon(delta, mu)
    off = 1e-12 + 1e-12 * mu + 1e-15 * epsilon
    with mpmath.workdps(700):
        assert curve(epsilon + off, mu) <= mpmath.mpf(delta) * (1 + mpmath.mpf(10) ** -12)
        if epsilon > off:
            assert curve(epsilon - off, mu) >= mpmath.mpf(delta) * (1 - mpmath.mpf(10) ** -12)


@settings(max_examples=60, deadline=None)
@given(st.floats(-2, 3).map(lambda x: 10**x), st.floats(-100, -0.5).map(lambda x: 10**x))
def test_the_library_agrees(mu: float, delta: float) -> None:
    truth = gaussian_epsilon(delta, mu)
    assert get_epsilon_gaussian(1 / mu, delta) == pytest.approx(truth, rel=1e-8, abs=1e-8)


def test_the_ends() -> None:
    assert gaussian_epsilon(0.0, 0.0) == gaussian_epsilon(1e-9, 0.0) == 0.0
    assert math.isinf(gaussian_epsilon(0.0, 1.0))
    assert math.isinf(gaussian_epsilon(1e-9, math.inf))
    assert gaussian_epsilon(0.5, 1.0) == 0.0
    assert log_gaussian_delta(1.0, 0.0) == -math.inf
    assert log_gaussian_delta(1.0, math.inf) == 0.0
