"""Exact limits of proportions, and the epsilon that two of them show."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedrec_auditor.auditor.worlds.estimators.parts.binomial_limits import (
    clopper_pearson_lower,
    clopper_pearson_upper,
    event_epsilon,
)


@given(st.integers(1, 500), st.data(), st.floats(0.001, 0.4))
def test_limits_agree_with_scipy(trials: int, data: st.DataObject, alpha: float) -> None:
    successes = data.draw(st.integers(0, trials))
    interval = stats.binomtest(successes, trials).proportion_ci(1 - 2 * alpha, method="exact")
    assert clopper_pearson_lower(successes, trials, alpha) == pytest.approx(interval.low, abs=1e-9)
    assert clopper_pearson_upper(successes, trials, alpha) == pytest.approx(interval.high, abs=1e-9)


@given(st.integers(0, 200), st.integers(0, 200), st.floats(0.0, 0.5))
def test_event_epsilon_is_the_plain_formula(hits: int, misses: int, delta: float) -> None:
    low = float(clopper_pearson_lower(hits, 200, 0.025))
    high = float(clopper_pearson_upper(misses, 200, 0.025))
    expected = max(0.0, math.log((low - delta) / high)) if low > delta else 0.0
    found = float(event_epsilon(hits, 200, misses, 200, delta=delta, alpha=0.05))
    assert found == pytest.approx(expected)
