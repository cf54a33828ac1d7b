"""Tests of published epsilons, computed again without the accountants and then by them."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import mpmath
import numpy as np
import pytest
from dp_accounting import ComposedDpEvent, DpEvent, GaussianDpEvent, SelfComposedDpEvent, ZCDpEvent
from numpy.typing import NDArray
from scipy import integrate, special, stats

from fedrec_auditor.accountants.events.leaves import PureDpEvent, ShuffledDpEvent
from fedrec_auditor.accountants.losses.divergences import find_gaussian_epsilon
from fedrec_auditor.accountants.methods.accounting_methods import Optimal, Pld, Pure, Rdp, Shuffle
from fedrec_auditor.accountants.methods.base import Accountant
from fedrec_auditor.accountants.statements import Scope
from tests.accountants.published import (
    DWORK_ROTH,
    GAUSSIANS,
    KAIROUZ_OH_VISWANATH,
    LIBRARY,
    MOMENTS,
    MURTAGH_VADHAN,
    PRINTED,
    Exact,
    Moments,
    Printed,
)
from tests.contracts.events import PRESENCE, SCOPE

Vector = NDArray[np.float64]


def epsilon(accountant: Accountant, event: DpEvent, delta: float, scope: Scope = SCOPE) -> float:
    return accountant.bound(event, delta=delta, scope=scope).epsilon


# --- Gaussian noise ---------------------------------------------------------------------------


def gaussian_delta(eps: float, mu: mpmath.mpf) -> mpmath.mpf:
    def phi(x: mpmath.mpf) -> mpmath.mpf:
        return mpmath.erfc(-x / mpmath.sqrt(2)) / 2

    return phi(mu / 2 - eps / mu) - mpmath.exp(eps) * phi(-mu / 2 - eps / mu)


@pytest.mark.parametrize("row", GAUSSIANS, ids=lambda row: f"{row.event}, {row.delta:.3g}")
def test_gaussian_values(row: Exact) -> None:
    noise, count = row.event.event.noise_multiplier, row.event.count
    with mpmath.workdps(400):
        mu = mpmath.sqrt(count) / mpmath.mpf(noise)
        for off, above in ((-1e-12, True), (1e-12, False)):
            eps = mpmath.mpf(row.epsilon) * (1 + mpmath.mpf(off))
            assert (gaussian_delta(eps, mu) > mpmath.mpf(row.delta)) is above, row.source
    assert find_gaussian_epsilon(row.delta, math.sqrt(count) / noise) == pytest.approx(
        row.epsilon, rel=1e-10
    )
    assert epsilon(Pld(), row.event, row.delta) == pytest.approx(row.epsilon, rel=1e-7)
    assert row.epsilon <= epsilon(Rdp(), row.event, row.delta) <= 1.6 * row.epsilon


def test_classic_noise_suffices_only_up_to_epsilon_1() -> None:
    for claimed, holds in ((0.1, True), (0.5, True), (1.0, True), (10.0, False), (100.0, False)):
        noise = math.sqrt(2 * math.log(1.25e5)) / claimed
        assert (epsilon(Pld(), GaussianDpEvent(noise), 1e-5) <= claimed) is holds


# --- Randomized responses ---------------------------------------------------------------------


def kairouz(k: int, eps: float, i: int) -> float:
    """delta_i = sum over l < i of binom(k, l) (e^((k-l) eps) - e^((k-2i+l) eps))/(1 + e^eps)^k."""
    with mpmath.workdps(60):
        e = mpmath.mpf(eps)
        top = mpmath.fsum(
            mpmath.binomial(k, j) * (mpmath.exp((k - j) * e) - mpmath.exp((k - 2 * i + j) * e))
            for j in range(i)
        )
        return float(top / (1 + mpmath.exp(e)) ** k)


@pytest.mark.parametrize(("k", "eps", "i"), KAIROUZ_OH_VISWANATH)
def test_kairouz_oh_viswanath(k: int, eps: float, i: int) -> None:
    event, delta = SelfComposedDpEvent(PureDpEvent(eps), k), kairouz(k, eps, i)
    assert 0 < delta < 1
    for accountant in (Optimal(), Pld()):
        assert epsilon(accountant, event, delta) == pytest.approx((k - 2 * i) * eps, rel=1e-8)
    for accountant in (Pure(), Rdp()):
        assert epsilon(accountant, event, delta) >= (k - 2 * i) * eps * (1 - 1e-8)


@pytest.mark.parametrize(("one", "two", "delta"), MURTAGH_VADHAN)
def test_murtagh_vadhan(one: float, two: float, delta: float) -> None:
    event = composed(one, two)
    both = 1 / (1 + math.exp(-one)) / (1 + math.exp(-two))
    truth = one + two + math.log1p(-delta / both)
    assert truth >= one - two, "the closed form holds down to the second atom only"
    assert epsilon(Optimal(), event, delta) == pytest.approx(truth, rel=1e-12)
    assert epsilon(Pld(), event, delta) >= truth * (1 - 1e-9)


def composed(*epsilons: float) -> DpEvent:
    return ComposedDpEvent([PureDpEvent(eps) for eps in epsilons])


def test_dwork_and_roth_example_of_bob() -> None:
    count, delta, eps = DWORK_ROTH
    event = SelfComposedDpEvent(PureDpEvent(eps), count)
    old = math.sqrt(2 * count * 32) * eps + count * eps * math.expm1(eps)
    assert old == pytest.approx(1.0143, abs=5e-5)
    # Kairouz, Oh and Viswanath 2015, Theorem 3.5: a smaller mean, and a smaller deviation.
    norm = math.sqrt(count) * eps
    level = math.log(math.e + norm / delta)
    new = count * eps * math.tanh(eps / 2) + norm * math.sqrt(2 * level)
    assert epsilon(Optimal(), event, delta) < new < 1.0


# --- Sampled Gaussian noise -------------------------------------------------------------------


def bound_sampled_renyi(rate: float, noise: float, order: int) -> float:
    """Mironov, Talwar and Zhang 2019, section 3.3: integer orders, a sum of positive terms."""
    k = np.arange(order + 1)
    terms = special.gammaln(order + 1) - special.gammaln(k + 1) - special.gammaln(order - k + 1)
    terms = terms + k * math.log(rate) + (order - k) * math.log1p(-rate)
    return float(special.logsumexp(terms + (k * k - k) / (2 * noise**2))) / (order - 1)


@pytest.mark.parametrize("order", [2, 3, 8, 20])
@pytest.mark.parametrize(("rate", "noise"), [(0.01, 4.0), (0.3, 1.0), (256 / 60_000, 1.12)])
def test_the_sum_of_integer_orders_is_the_integral(rate: float, noise: float, order: int) -> None:
    def term(x: float) -> float:
        ratio = 1 - rate + rate * math.exp((2 * x - 1) / (2 * noise**2))
        return float(stats.norm.pdf(x, scale=noise)) * ratio**order

    moment, _ = integrate.quad(
        term, -12 * noise, order + 12 * noise, limit=500, points=[0, 1, order]
    )
    assert bound_sampled_renyi(rate, noise, order) == pytest.approx(
        math.log(moment) / (order - 1), rel=1e-6
    )


def bound_below(
    cdf: Callable[[Vector], Vector], count: int, delta: float, step: float, reach: float
) -> float:
    """Lower bound on the epsilon of ``count`` uses at ``delta``: losses rounded down, convolved.

    ``cdf`` is that of one loss under the first distribution; only losses within +-reach count.
    """
    size = 2 ** math.ceil(math.log2(2 * reach / step))
    grid = step * (np.arange(size) - size // 2)
    edges = cdf(np.append(grid, grid[-1] + step))
    mass = np.maximum(np.diff(edges), 0.0)
    total = np.fft.irfft(np.fft.rfft(np.fft.ifftshift(mass)) ** count, size)
    total = np.maximum(np.fft.fftshift(total) - 1e-15, 0.0)
    high = total[::-1], grid[::-1]
    inside, other = np.cumsum(high[0]), np.cumsum(high[0] * np.exp(-high[1]))
    spent = inside - np.exp(high[1]) * other
    return float(high[1][np.searchsorted(spent, delta)])


def sampled_cdf(rate: float, noise: float) -> Callable[[Vector], Vector]:
    """Distribution function of ln((1 - q) + q e^((2x - 1)/(2 z^2))), with x from the mixture."""

    def cdf(loss: Vector) -> Vector:
        with np.errstate(divide="ignore", invalid="ignore"):
            odds = (np.expm1(loss) + rate) / rate
            x = noise**2 * np.log(np.maximum(odds, 0.0)) + 0.5
        return np.asarray(
            (1 - rate) * special.ndtr(x / noise) + rate * special.ndtr((x - 1) / noise)
        )

    return cdf


@functools.cache
def sampled_from_below(
    rate: float, noise: float, steps: int, delta: float, reach: float = 4.0
) -> float:
    return bound_below(sampled_cdf(rate, noise), steps, delta, 4e-6, reach)


def classic(row: Moments | Printed) -> float:
    """Epsilon of the moments accountant, at integer orders."""
    return min(
        row.steps * bound_sampled_renyi(row.rate, row.noise, order)
        + math.log(1 / row.delta) / (order - 1)
        for order in range(2, 65)
    )


@pytest.mark.parametrize("row", MOMENTS, ids=lambda row: row.source)
def test_moments_accountants(row: Moments) -> None:
    assert round(classic(row), row.digits) == row.printed, row.source
    lower = sampled_from_below(row.rate, row.noise, row.steps, row.delta)
    tight = epsilon(Pld(), row.event, row.delta, PRESENCE)
    assert 0 < lower <= tight <= classic(row) + 1e-9
    assert tight <= lower * 1.06 + 0.02, "the tight accountant is not tight"


@pytest.mark.parametrize("row", PRINTED, ids=lambda row: row.source)
def test_printed_epsilons_are_upper_bounds(row: Printed) -> None:
    """The printed epsilon is slightly above a lower bound without our accountants."""
    lower = sampled_from_below(row.rate, row.noise, row.steps, row.delta, 4 + 4 * (row.epsilon > 3))
    assert lower <= row.epsilon <= max(classic(row), lower) * 1.02


# --- Rényi curves -----------------------------------------------------------------------------


def test_zcdp_is_below_bun_and_steinke() -> None:
    """Bun and Steinke 2016, Proposition 1.3: rho + 2 sqrt(rho ln(1/delta))."""
    for rho in (0.001, 0.05, 1.0, 30.0):
        for delta in (1e-9, 1e-5, 1e-2):
            found = epsilon(Rdp(), ZCDpEvent(rho), delta)
            assert find_gaussian_epsilon(delta, math.sqrt(2 * rho)) <= found
            assert found <= rho + 2 * math.sqrt(rho * math.log(1 / delta))


# --- Shuffles ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("local", "users"), [(0.3, 2000), (1.0, 5000), (2.0, 20_000)])
def test_shuffles_are_below_their_closed_forms(local: float, users: int) -> None:
    """Feldman, McMillan and Talwar 2021, Theorem 3.1, and Erlingsson et al. 2019, from memory.

    The second needs a local epsilon below 1/2. Both are upper bounds that the accountant must not
    exceed.
    """
    delta, growth = 1e-6, math.exp(local)
    assert local <= math.log(users / (16 * math.log(2 / delta)))
    root = 8 * math.sqrt(growth * math.log(4 / delta) / users) + 8 * growth / users
    closed = math.log1p((growth - 1) / (growth + 1) * root)
    found = epsilon(Shuffle(), ShuffledDpEvent(local, users), delta)
    assert 0 < found <= closed
    if local < 0.5:
        assert found <= 12 * local * math.sqrt(math.log(1 / delta) / users)


# --- The library's own examples ---------------------------------------------------------------


@pytest.mark.parametrize("row", LIBRARY, ids=lambda row: row.source)
def test_the_library_agrees(row: Exact) -> None:
    able = [a for a in (Pure(), Optimal(), Pld()) if a.supports(row.event)]
    assert able
    for accountant in able:
        found = epsilon(accountant, row.event, row.delta, row.scope)
        assert found >= row.epsilon * (1 - 1e-12)
    assert LIBRARY[1].epsilon == pytest.approx(2.46964, abs=5e-6)
    # At a delta as small as in the library's tests, the loss accountant gives the closed form.
    assert epsilon(Pld(), row.event, 1e-12, row.scope) == pytest.approx(row.epsilon, rel=2e-3)
