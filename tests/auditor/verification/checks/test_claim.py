"""Tests of the conditions under which a check accuses."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.verification.checks.shared_evidence import (
    MAX_FALSE_ALARM_PROB,
    ClaimUnderTest,
    quote_value,
    stack_draws,
)


@given(st.integers(1, 50), st.integers(20, 10_000))
def test_the_reach_is_the_bound_of_the_clearest_event(tests: int, trials: int) -> None:
    claim = ClaimUnderTest(epsilon=0.0, delta=0.0, n_tests=tests)
    reach = claim.find_max_lower_bound(trials)
    just, beyond = (
        ClaimUnderTest(epsilon=reach + d, delta=0.0, n_tests=tests) for d in (-1e-9, 1e-9)
    )
    assert just.is_refuted(trials, trials, 0, trials)
    assert not beyond.is_refuted(trials, trials, 0, trials)


def test_limits_hold_with_the_stated_probability() -> None:
    """All n draws are in an event of probability p with probability p^n; the limit is then p."""
    claim = ClaimUnderTest(epsilon=0.0, delta=0.0, n_tests=4)
    assert claim.compute_lower_prob(100, 100) ** 100 == pytest.approx(MAX_FALSE_ALARM_PROB / 4)
    assert claim.compute_lower_prob(0, 100) == 0.0
    assert claim.is_every_epsilon_refuted(100, 100)
    assert not ClaimUnderTest(epsilon=0.0, delta=0.9, n_tests=4).is_every_epsilon_refuted(100, 100)


def test_an_event_as_likely_as_the_claim_allows_is_not_refuted() -> None:
    """20,000 binomial counts at exactly e^epsilon never refute at an error of 1e-6."""
    rng = np.random.default_rng(0)
    claim = ClaimUnderTest(epsilon=1.0, delta=0.0, n_tests=1)
    hits, misses = rng.binomial(400, 0.8, 20_000), rng.binomial(400, 0.8 / np.e, 20_000)
    for h, m in {*zip(hits.tolist(), misses.tolist(), strict=True)}:
        assert not claim.is_refuted(h, 400, m, 400)


def test_draws_of_different_shapes_are_refused() -> None:
    with pytest.raises(InputError, match="one shape"):
        stack_draws([np.zeros((4, 1)), np.zeros((4, 2))])
    with pytest.raises(InputError):
        stack_draws([np.array(["a", "b"]), np.zeros(2)])


def test_quoted_values_are_short_and_plain() -> None:
    assert quote_value(np.float64(0.5)) == "0.5"
    assert quote_value(np.array([1, 2])) == "[1, 2]"
    assert len(quote_value(list(range(1000)))) <= 60
