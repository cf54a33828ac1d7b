"""Tests of the inverse of the Gaussian privacy curve, against 700 digits."""

from __future__ import annotations

import math

import mpmath
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrec_auditor.accountants.losses.divergences import find_gaussian_epsilon


def curve(epsilon: float, mu: float) -> mpmath.mpf:
    """Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu), term by term."""

    def phi(x: mpmath.mpf) -> mpmath.mpf:
        return mpmath.erfc(-x / mpmath.sqrt(2)) / 2

    e, m = mpmath.mpf(epsilon), mpmath.mpf(mu)
    return phi(m / 2 - e / m) - mpmath.exp(e) * phi(-m / 2 - e / m)


@settings(max_examples=12)
@given(
    st.floats(-5, 4).map(lambda x: 10**x),
    st.one_of(st.floats(-300, -1e-3).map(lambda x: 10**x), st.floats(1e-3, 0.999)),
)
def test_the_inverse_is_accurate(mu: float, delta: float) -> None:
    epsilon = find_gaussian_epsilon(delta, mu)
    off = 1e-12 + 1e-12 * mu + 1e-15 * epsilon
    with mpmath.workdps(700):
        assert curve(epsilon + off, mu) <= mpmath.mpf(delta) * (1 + mpmath.mpf(10) ** -12)
        if epsilon > off:
            assert curve(epsilon - off, mu) >= mpmath.mpf(delta) * (1 - mpmath.mpf(10) ** -12)


def test_the_inverse_at_the_ends() -> None:
    assert find_gaussian_epsilon(0.0, 0.0) == find_gaussian_epsilon(1e-9, 0.0) == 0.0
    assert math.isinf(find_gaussian_epsilon(0.0, 1.0))
    assert math.isinf(find_gaussian_epsilon(1e-9, math.inf))
    assert find_gaussian_epsilon(0.5, 1.0) == 0.0
