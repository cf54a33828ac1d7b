"""K-ary randomized response."""

from __future__ import annotations

import math
from decimal import localcontext
from fractions import Fraction

import numpy as np
import pytest
from dp_accounting import RandomizedResponseDpEvent
from hypothesis import given
from hypothesis import strategies as st

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.exact import exact_lower_bound
from fedrec_auditor.auditor.worlds.sampler import ONE_REPORT as SCOPE
from fedrec_auditor.targets.mechanisms.k_ary import KAry
from fedrec_auditor.targets.mechanisms.parts.rates import share_of_noise


@given(st.floats(0, 300), st.integers(2, 1000))
def test_it_has_the_published_distribution(epsilon: float, k: int) -> None:
    true, false = np.exp(KAry(epsilon, k).log_prob([1, 0], 1))
    grown = math.exp(epsilon)
    assert true == pytest.approx(grown / (grown + k - 1), rel=1e-12)
    assert false == pytest.approx(1 / (grown + k - 1), rel=1e-12)


@given(st.floats(0, 300), st.integers(2, 12))
def test_the_worst_ratio_is_epsilon(epsilon: float, k: int) -> None:
    shown = exact_lower_bound(KAry(epsilon, k), SCOPE).epsilon
    assert shown == pytest.approx(epsilon, rel=1e-12, abs=1e-14)


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 6.0])
def test_the_estimate_is_unbiased_with_the_published_variance(epsilon: float) -> None:
    """Wang et al. 2017: the variance for a category that nobody holds, summed over the reports."""
    mechanism, reports = KAry(epsilon, 4), np.arange(4)
    probabilities = np.exp(mechanism.log_prob(reports[None], np.arange(4)[:, None]))
    np.testing.assert_allclose(probabilities @ mechanism.estimate(reports), np.eye(4), atol=1e-12)
    variance = probabilities[0] @ mechanism.estimate(reports)[:, 3] ** 2
    assert variance == pytest.approx((2 + math.exp(epsilon)) / (math.exp(epsilon) - 1) ** 2)


def test_its_event_is_randomized_response() -> None:
    assert KAry(1.5, 6).event() == RandomizedResponseDpEvent(KAry(1.5, 6).noise, 6)


def test_at_epsilon_0_its_estimate_is_infinite() -> None:
    assert np.isinf(KAry(0.0, 3).estimate(np.arange(3))).all()


@pytest.mark.parametrize("epsilon", [40.0, 300.0, 700.0])
def test_every_report_may_come_from_every_category(epsilon: float) -> None:
    assert np.isfinite(KAry(epsilon, 3).log_prob(np.arange(3)[None], np.arange(3)[:, None])).all()


def test_senseless_inputs_are_refused() -> None:
    for value in (3, 0.5, -1):
        with pytest.raises(InputError, match="input"):
            KAry(1.0, 3).randomize(value, np.random.default_rng())


def test_an_impossible_report_has_no_probability() -> None:
    assert np.isneginf(KAry(1.0, 3).log_prob([-1, 3, 0.5], 0)).all()


def test_the_witness_is_in_words() -> None:
    witness = exact_lower_bound(KAry(1.0, 3), SCOPE).witness
    assert {witness.input_a, witness.input_b} == {"true category 0", "true category 1"}
    assert witness.output == "reported category 0"


def test_many_categories_and_little_privacy_lose_no_digits() -> None:
    """A loss of 1e-9 over a million categories, against the ratio of the number stored."""
    oracle = KAry(1e-9, 10**6)
    noise = Fraction(oracle.noise)
    ratio = 1 + (1 - noise) * oracle.categories / noise
    assert exact_lower_bound(oracle, SCOPE).epsilon == pytest.approx(float(ratio - 1), abs=1e-14)


def test_rates_do_not_hang_on_the_precision_of_others() -> None:
    with localcontext() as context:
        context.prec = 4
        coarse = share_of_noise.__wrapped__(1.2345, 7)
    assert coarse == share_of_noise(1.2345, 7)
