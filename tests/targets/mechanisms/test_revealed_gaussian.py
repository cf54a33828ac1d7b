"""Gaussians of which it is known when they happen: the curve by other ways."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fedrec_auditor.accountants.losses.divergences import gaussian_divergence
from fedrec_auditor.accountants.methods.accounting_methods import Pld
from fedrec_auditor.accountants.statements import Adjacency, Horizon, Scope, Unit, Vantage
from fedrec_auditor.auditor.exact import exact_lower_bound
from fedrec_auditor.targets.mechanisms.gaussian_mechanisms import RevealedGaussian

RATING = Scope(
    unit=Unit.RATING,
    adjacency=Adjacency.ADD_REMOVE,
    vantage=Vantage.SERVER,
    horizon=Horizon.TRAINING,
)


def made(z: float = 1.0, rate: float = 0.3, count: int = 4) -> RevealedGaussian:
    return RevealedGaussian(noise_multiplier=z, sampling_probability=rate, count=count)


@given(
    z=st.floats(0.3, 5.0),
    rate=st.floats(0.01, 1.0),
    count=st.integers(1, 12),
    epsilon=st.floats(0.0, 6.0),
)
@settings(max_examples=25)
def test_the_curve_is_the_mean_over_all_patterns_of_coins(
    z: float, rate: float, count: int, epsilon: float
) -> None:
    """By the binomial law written out, and the two terms of each Gaussian's curve."""
    expected = 0.0
    for k in range(1, count + 1):
        chance = math.comb(count, k) * rate**k * (1 - rate) ** (count - k)
        mu = math.sqrt(k) / z
        far = stats.norm.cdf(mu / 2 - epsilon / mu)
        expected += chance * (far - math.exp(epsilon) * stats.norm.cdf(-mu / 2 - epsilon / mu))
    assert made(z, rate, count).delta(epsilon) == pytest.approx(expected, abs=1e-12)


def test_where_every_row_is_drawn_it_is_one_gaussian() -> None:
    assert made(2.0, 1.0, 9).delta(0.7) == pytest.approx(gaussian_divergence(1.5, 0.7))


@pytest.mark.parametrize(("z", "rate", "count"), [(1.4144, 0.01, 1000), (0.8, 0.2, 30)])
@pytest.mark.parametrize("delta", [1e-5, 1e-2])
def test_the_accountant_finds_the_same_epsilon(
    z: float, rate: float, count: int, delta: float
) -> None:
    mechanism = made(z, rate, count)
    least = exact_lower_bound(mechanism, RATING, delta).epsilon
    proved = Pld().bound(mechanism.event(), delta=delta, scope=RATING).epsilon
    assert least <= proved <= least * 1.001 + 0.01


def test_claimed_one_is_14_45_where_a_thousand_rows_in_a_hundred_are_drawn() -> None:
    """The figure of the catalogue of claims; z is that of Poisson-sampled steps of epsilon 1."""
    found = exact_lower_bound(made(1.4144, 0.01, 1000), RATING, 1e-5)
    assert found.epsilon == pytest.approx(14.45, abs=0.005)


@given(z=st.floats(0.5, 3.0), rate=st.floats(0.05, 0.9), count=st.integers(1, 20))
@settings(max_examples=30)
def test_more_of_anything_tells_more(z: float, rate: float, count: int) -> None:
    least = made(z, rate, count).delta(1.0)
    assert made(z * 0.9, rate, count).delta(1.0) >= least
    assert made(z, rate * 1.1, count).delta(1.0) >= least
    assert made(z, rate, count + 1).delta(1.0) >= least


def test_coins_are_low_as_often_as_rows_are_drawn_and_only_then_the_value_shows() -> None:
    outputs = made(0.5, 0.3, 4).randomize(1.0, np.random.default_rng(0), (50_000,))
    coins, sums = outputs[..., 0].ravel(), outputs[..., 1].ravel()
    drawn = coins < stats.norm.ppf(0.3)
    assert drawn.mean() == pytest.approx(0.3, abs=6 * math.sqrt(0.21 / drawn.size))
    for chosen, center in ((drawn, 1.0), (~drawn, 0.0)):
        assert sums[chosen].mean() == pytest.approx(center, abs=6 * 0.5 / math.sqrt(chosen.sum()))
