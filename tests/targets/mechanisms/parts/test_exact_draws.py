"""Exact Bernoulli draws, geometric distributions and rates."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.mechanisms.parts import bases, grid

P_VALUE = 1e-9


class Digits:
    """A generator that draws the given digits in turn, for every output."""

    def __init__(self, *digits: int) -> None:
        self.digits = list(digits)

    def integers(self, low: int, high: int, size: int) -> np.ndarray:
        return np.full(size, self.digits.pop(0))


@given(st.floats(0, 1, exclude_max=True))
def test_a_coin_compares_every_digit_of_its_rate(rate: float) -> None:
    """Draws equal to the digits of the rate fail; draws lower in the last digit succeed."""
    digits, rest = [], Fraction(rate)
    while rest:
        digits.append(math.floor(rest * 2**53))
        rest = rest * 2**53 - digits[-1]
    digits = digits or [0]
    assert not grid.draw_bernoulli(rate, Digits(*digits, 0), (1,))[0]
    if rate > 0:
        digits[-1] -= 1
        assert grid.draw_bernoulli(rate, Digits(*digits), (1,))[0]


def test_certain_coins_never_fail() -> None:
    rng = np.random.default_rng(1)
    assert grid.draw_bernoulli(1.0, rng, (1000,)).all()
    assert not grid.draw_bernoulli(0.0, rng, (1000,)).any()


@pytest.mark.parametrize("cost", [0.0, 0.3, 1.0, 2.7])
def test_an_exponential_coin_has_its_rate(cost: float) -> None:
    n = 100_000
    tossed = grid.draw_bernoulli_exp(round(cost * 10), 10, np.random.default_rng(2), n)
    assert stats.binomtest(int(tossed.sum()), n, math.exp(-cost)).pvalue > P_VALUE


@pytest.mark.parametrize("scale", [Fraction(0.3), Fraction(1), Fraction(7, 2), Fraction(1000.1)])
def test_geometric_and_discrete_laplace_samples_follow_their_laws(scale: Fraction) -> None:
    n, rng, rate = 60_000, np.random.default_rng(3), 1 / float(scale)
    edges = np.unique(np.round(np.arange(0.0, 8.0, 0.5) / rate))
    drawn = grid.draw_geometric(scale, rng, n)
    counts = np.histogram(drawn, np.append(edges, np.inf))[0]
    law = -np.diff(np.append(np.exp(-edges * rate), 0.0))
    assert stats.chisquare(counts, law * n).pvalue > P_VALUE
    noise = grid.draw_laplace(scale, rng, n)
    chance = math.tanh(rate / 2)
    assert stats.binomtest(int((noise == 0).sum()), n, chance).pvalue > P_VALUE
    apart = noise[noise != 0]
    assert stats.binomtest(int((apart > 0).sum()), len(apart), 0.5).pvalue > P_VALUE
    law = law[1:] / law[1:].sum() if edges[1] == 1 else None
    if law is not None:
        counts = np.histogram(np.abs(apart), np.append(edges[1:], np.inf))[0]
        assert stats.chisquare(counts, law * len(apart)).pvalue > P_VALUE


@given(st.floats(0, 700))
def test_flip_rates_are_the_least_doubles_that_keep_epsilon(epsilon: float) -> None:
    with localcontext() as context:
        context.prec = 400
        flips = bases.compute_flip_rate(epsilon)
        for rate, kept in ((flips, True), (_below(flips), False)):
            ratio = (1 - Decimal(rate)) / Decimal(rate)
            assert (ratio <= Decimal(epsilon).exp()) is kept


@given(st.floats(0, 700), st.integers(2, 10**6))
def test_noise_rates_are_the_least_that_keep_epsilon(epsilon: float, outputs: int) -> None:
    with localcontext() as context:
        context.prec = 400
        noise = bases.compute_input_ignore_prob(epsilon, outputs)
        for share, kept in ((noise, True), (_below(noise), False)):
            ratio = 1 + (1 - Decimal(share)) * outputs / Decimal(share)
            assert (ratio <= Decimal(epsilon).exp()) is kept


def _below(rate: float) -> float:
    return math.nextafter(rate, 0.0)


@pytest.mark.parametrize("epsilon", [-1.0, math.nan, 701.0, math.inf])
def test_epsilons_beyond_double_precision_are_refused(epsilon: float) -> None:
    with pytest.raises(InputError, match="epsilon"):
        bases.check_epsilon_range(epsilon)
