"""Rényi curves of samples against dp-accounting, numerical integration and general bounds."""

from __future__ import annotations

import logging
import math

import mpmath
import numpy as np
import pytest
from dp_accounting import (
    DpEvent,
    GaussianDpEvent,
    NeighboringRelation,
    PoissonSampledDpEvent,
    SampledWithoutReplacementDpEvent,
)
from dp_accounting.rdp import RdpAccountant
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from fedrec_auditor.accountants.losses.renyi_curves import (
    _moments,
    fixed_size_curve,
    fixed_size_gaussian_curve,
    gaussian,
    poisson_gaussian_curve,
)

WHOLE = np.array([2.0, 3.0, 4.0, 7.0, 12.0, 33.0, 64.0, 130.0, 256.0])


def library(event: DpEvent, relation: NeighboringRelation, orders: np.ndarray) -> np.ndarray:
    logging.getLogger("absl").setLevel(logging.ERROR)
    accountant = RdpAccountant(orders=orders, neighboring_relation=relation)
    return np.asarray(accountant.compose(event).rdp)


RATES = [(0.01, 1.0), (0.1, 2.0), (1e-4, 0.5), (0.9, 5.0), (1e-6, 1.0), (0.02, 0.1)]


@pytest.mark.parametrize(("rate", "noise"), RATES)
def test_poisson_samples_are_the_librarys_at_whole_orders(rate: float, noise: float) -> None:
    event = PoissonSampledDpEvent(rate, GaussianDpEvent(noise))
    theirs = library(event, NeighboringRelation.ADD_OR_REMOVE_ONE, WHOLE)
    assert poisson_gaussian_curve(rate, noise, WHOLE) == pytest.approx(theirs, rel=1e-7)


@pytest.mark.parametrize("order", [1.001, 1.1, 1.5, 2.0, 2.5, 4.7, 10.3])
@pytest.mark.parametrize(("rate", "noise"), RATES[:4])
def test_poisson_samples_are_the_integral_at_any_order(
    rate: float, noise: float, order: float
) -> None:
    """The moment by scipy's quadrature; dp-accounting is never smaller between integer orders."""
    mu = 1 / noise

    def excess(x: float) -> float:
        grown = rate * math.expm1(mu * x - mu * mu / 2)
        return stats.norm.pdf(x) * (math.expm1(order * math.log1p(grown)) - order * grown)

    total = integrate.quad(excess, -13, 5, limit=400, epsabs=0, epsrel=1e-10)[0]
    total += integrate.quad(excess, 5, order * mu + 13, limit=400, epsabs=0, epsrel=1e-10)[0]
    truth = math.log1p(total) / (order - 1)
    found = float(poisson_gaussian_curve(rate, noise, np.array([order]))[0])
    assert truth * (1 - 1e-6) <= found <= truth * (1 + 1e-5) + 1e-12
    event = PoissonSampledDpEvent(rate, GaussianDpEvent(noise))
    theirs = library(event, NeighboringRelation.ADD_OR_REMOVE_ONE, np.array([order]))
    assert found <= theirs[0] * (1 + 1e-6)


@pytest.mark.parametrize(
    ("size", "sample", "noise"),
    [(4800, 30, 1.0), (760, 15, 1.0), (1000, 500, 3.0), (1000, 10, 0.3), (10**6, 10, 2.0)],
)
def test_samples_of_fixed_size_are_the_librarys_or_what_is_not_sampled(
    size: int, sample: int, noise: float
) -> None:
    """Theorem 27; the library goes above the curve without sampling at large orders."""
    event = SampledWithoutReplacementDpEvent(size, sample, GaussianDpEvent(noise))
    orders = np.append(WHOLE[WHOLE < 200], [1.3, 2.6, 5.5])
    theirs = library(event, NeighboringRelation.REPLACE_ONE, orders)
    ours = fixed_size_gaussian_curve(sample / size, noise, orders)
    assert ours == pytest.approx(np.minimum(theirs, gaussian(noise, orders)), rel=1e-5)


def test_the_general_bound_is_the_sum_as_printed() -> None:
    """Theorem 9 of Wang, Balle and Kasiviswanathan, in plain numbers, for Gaussian and pure."""
    q, noise, top = 0.02, 1.5, 0.3
    for order in (2, 3, 6):
        for largest in (math.inf, top):

            def curve(a: float, largest: float = largest) -> float:
                return min(a / (2 * noise**2), largest)

            total = 1 + q**2 * math.comb(order, 2) * min(
                4 * math.expm1(curve(2)),
                math.exp(curve(2)) * min(2, math.expm1(min(largest, 9)) ** 2),
            )
            for j in range(3, order + 1):
                gap = min(2, math.expm1(min(largest, 9)) ** j)
                total += q**j * math.comb(order, j) * math.exp((j - 1) * curve(j)) * gap
            ours = fixed_size_curve(
                q,
                lambda a, top=largest: np.minimum(a / (2 * noise**2), top),
                np.array([float(order)]),
                largest,
            )
            assert ours[0] == pytest.approx(math.log(total) / (order - 1), rel=1e-6)


@settings(max_examples=60)
@given(rate=st.floats(1e-6, 1.0), noise=st.floats(0.3, 20.0), order=st.floats(1.01, 60.0))
def test_bounds_hold_what_they_bound(rate: float, noise: float, order: float) -> None:
    """Tight bound <= general bound <= unsampled; Poisson, which is attained, is below all."""
    at = np.array([order])
    reached = float(poisson_gaussian_curve(rate, noise, at)[0])
    tight = float(fixed_size_gaussian_curve(rate, noise, at)[0])
    general = float(fixed_size_curve(rate, lambda a: gaussian(noise, a), at)[0])
    plain = float(gaussian(noise, at)[0])
    assert reached <= tight * (1 + 1e-6) + 1e-12
    assert tight <= general * (1 + 1e-6)
    assert general <= plain * (1 + 1e-9)
    more = min(1.0, 1.5 * rate)
    assert poisson_gaussian_curve(more, noise, at)[0] >= reached * (1 - 1e-6)
    assert poisson_gaussian_curve(rate, noise / 1.1, at)[0] >= reached * (1 - 1e-6)


def test_no_sample_costs_nothing_and_a_whole_one_costs_all() -> None:
    orders = np.array([1.5, 2.0, 40.0])
    for curve in (poisson_gaussian_curve, fixed_size_gaussian_curve):
        assert np.all(curve(0.0, 1.3, orders) == 0)
        assert curve(1.0, 1.3, orders) == pytest.approx(gaussian(1.3, orders))
        assert np.all(np.isinf(curve(0.5, 0.0, orders)))


def test_losses_beyond_the_doubles_count_between_whole_orders() -> None:
    """ln E[r^a] >= a ln q + a (a - 1) mu^2/2: the sampled record alone."""
    rate, noise, order = 0.5, 0.125, 10.9
    least = (order * math.log(rate) + order * (order - 1) / 2 / noise**2) / (order - 1)
    found = poisson_gaussian_curve(rate, noise, np.array([order]))[0]
    assert least * (1 - 1e-12) <= found <= least * 1.001


@pytest.mark.parametrize("mu", [0.01, 0.05, 0.3])
@pytest.mark.parametrize("level", [2, 100, 160, 256])
def test_moments_of_the_ratio_are_their_alternating_sum(mu: float, level: int) -> None:
    with mpmath.workdps(900):
        half = mpmath.mpf(mu) ** 2 / 2
        exact = mpmath.fsum(
            mpmath.binomial(level, k) * (-1) ** k * mpmath.exp(k * (k - 1) * half)
            for k in range(level + 1)
        )
        log = float(mpmath.log(exact))
    assert _moments(mu)[level] == pytest.approx(log, abs=1e-9)


def test_noise_without_end_tells_nothing() -> None:
    for curve in (poisson_gaussian_curve, fixed_size_gaussian_curve):
        assert not curve(0.5, math.inf, WHOLE).any()
