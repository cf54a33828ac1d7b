"""Frequency oracles: k-ary randomized response, symmetric and optimized unary encoding."""

from __future__ import annotations

import itertools
import math
from decimal import localcontext
from fractions import Fraction

import numpy as np
import pytest
from dp_accounting import RandomizedResponseDpEvent, SelfComposedDpEvent
from hypothesis import given
from hypothesis import strategies as st

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.events.leaves import PureDpEvent
from fedrec_auditor.accountants.methods.pure import Pure
from fedrec_auditor.auditor.exact import delta_at, exact_lower_bound
from fedrec_auditor.auditor.worlds.sampler import ONE_REPORT as SCOPE
from fedrec_auditor.targets.mechanisms.bit_flip import BitFlip
from fedrec_auditor.targets.mechanisms.k_ary import KAry
from fedrec_auditor.targets.mechanisms.optimal_unary import OptimalUnary
from fedrec_auditor.targets.mechanisms.parts.rates import share_of_noise
from fedrec_auditor.targets.mechanisms.product import Product
from fedrec_auditor.targets.mechanisms.symmetric_unary import SymmetricUnary

UNARY = (SymmetricUnary, OptimalUnary)
Oracle = KAry | SymmetricUnary | OptimalUnary


def outputs_of(oracle: Oracle) -> np.ndarray:
    if isinstance(oracle, KAry):
        return np.arange(oracle.categories)
    return np.array(list(itertools.product([0, 1], repeat=oracle.categories)))


@given(st.floats(0, 300), st.integers(2, 1000))
def test_k_ary_has_the_printed_law(epsilon: float, k: int) -> None:
    true, false = np.exp(KAry(epsilon, k).log_prob([1, 0], 1))
    grown = math.exp(epsilon)
    assert true == pytest.approx(grown / (grown + k - 1), rel=1e-12)
    assert false == pytest.approx(1 / (grown + k - 1), rel=1e-12)


@given(st.floats(0, 300), st.integers(2, 12))
def test_the_worst_ratio_is_epsilon(epsilon: float, k: int) -> None:
    for oracle in (KAry(epsilon, k), SymmetricUnary(epsilon, k), OptimalUnary(epsilon, k)):
        shown = exact_lower_bound(oracle, SCOPE).epsilon
        assert shown == pytest.approx(epsilon, rel=1e-12, abs=1e-14)


@pytest.mark.parametrize("kind", UNARY)
@pytest.mark.parametrize("k", [2, 3, 5])
def test_two_bits_tell_all_that_the_whole_report_tells(kind: type[Oracle], k: int) -> None:
    """The exact bounds look at two of the bits; here all 2^k reports and all pairs are summed."""
    oracle = kind(1.7, k)
    law = oracle.log_prob(outputs_of(oracle)[None], np.arange(k)[:, None])
    assert (law[:, None] - law[None]).max() == pytest.approx(1.7)
    for epsilon in (0.0, 0.4, 1.2):
        over = np.exp(law[:, None]) - math.exp(epsilon) * np.exp(law[None])
        slow = np.maximum(over, 0.0).sum(axis=-1).max()
        assert delta_at(oracle, epsilon) == pytest.approx(slow, rel=1e-12)


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 6.0])
@pytest.mark.parametrize("kind", [KAry, *UNARY])
def test_the_estimate_is_unbiased_by_the_law(kind: type[Oracle], epsilon: float) -> None:
    oracle = kind(epsilon, 4)
    reports = outputs_of(oracle)
    law = np.exp(oracle.log_prob(reports[None], np.arange(4)[:, None]))
    np.testing.assert_allclose(law @ oracle.estimate(reports), np.eye(4), atol=1e-12)


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 5.0])
def test_variances_for_rare_categories_are_the_published_ones(epsilon: float) -> None:
    """Wang et al. 2017: the noise of a category that nobody holds, here summed over the law."""
    grown, half = math.exp(epsilon), math.exp(epsilon / 2)
    for oracle, published in (
        (KAry(epsilon, 4), (4 - 2 + grown) / (grown - 1) ** 2),
        (SymmetricUnary(epsilon, 4), half / (half - 1) ** 2),
        (OptimalUnary(epsilon, 4), 4 * grown / (grown - 1) ** 2),
    ):
        reports = outputs_of(oracle)
        law = np.exp(oracle.log_prob(reports, 0))
        assert law @ oracle.estimate(reports)[:, 3] ** 2 == pytest.approx(published)


def test_a_whole_epsilon_a_bit_costs_two() -> None:
    """The trap of unary encoding: flipping every bit at 1/(e^eps + 1)."""
    bits = Product(BitFlip.symmetric(1.0), 4)
    one, other = np.eye(4)[:2]
    assert bits.log_prob(one, one) - bits.log_prob(one, other) == pytest.approx(2.0)


def test_events_are_no_looser_than_the_mechanism() -> None:
    assert KAry(1.5, 6).event() == RandomizedResponseDpEvent(KAry(1.5, 6).noise, 6)
    flip = SymmetricUnary(1.5, 6).missed
    assert SymmetricUnary(1.5, 6).event() == SelfComposedDpEvent(
        RandomizedResponseDpEvent(2 * flip, 2), 2
    )
    assert OptimalUnary(1.5, 6).event() == PureDpEvent(1.5)
    apart = SelfComposedDpEvent(BitFlip(0.5, OptimalUnary(1.5, 6).invented).event(), 2)
    charged = Pure().bound(apart, delta=0.0, scope=SCOPE).epsilon
    assert charged == pytest.approx(2 * math.log((math.exp(1.5) + 1) / 2))
    assert charged > 1.5


def test_epsilon_0_tells_nothing_and_its_estimate_is_infinite() -> None:
    for kind in (KAry, *UNARY):
        oracle = kind(0.0, 3)
        assert np.isinf(oracle.estimate(outputs_of(oracle))).all()


@pytest.mark.parametrize("epsilon", [40.0, 300.0, 700.0])
@pytest.mark.parametrize("kind", [KAry, *UNARY])
def test_every_report_may_come_from_every_category_however_large_epsilon(
    kind: type[Oracle], epsilon: float
) -> None:
    oracle = kind(epsilon, 3)
    law = oracle.log_prob(outputs_of(oracle)[None], np.arange(3)[:, None])
    assert np.isfinite(law).all()


@pytest.mark.parametrize("kind", [KAry, *UNARY])
def test_senseless_inputs_are_refused(kind: type[Oracle]) -> None:
    for value in (3, 0.5, -1):
        with pytest.raises(InputError, match="input"):
            kind(1.0, 3).randomize(value, np.random.default_rng())


def test_what_is_no_report_has_no_probability() -> None:
    assert np.isneginf(KAry(1.0, 3).log_prob([-1, 3, 0.5], 0)).all()
    assert np.isneginf(OptimalUnary(1.0, 3).log_prob([0, 2, 0], 0))


def test_witnesses_are_in_words() -> None:
    for oracle, words in (
        (KAry(1.0, 3), "reported category 0"),
        (OptimalUnary(1.0, 3), "bits 0, 1 of categories 0 and 1"),
    ):
        witness = exact_lower_bound(oracle, SCOPE).witness
        assert {witness.input_a, witness.input_b} == {"true category 0", "true category 1"}
        assert witness.output == words


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
