"""Rényi curves of sampled mechanisms: the Rényi divergence, ln E_Q[(P/Q)^a] / (a - 1), as a
function of the order a.

P and Q are the output distributions under two neighbouring inputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.special import gammaln

from fedrec_auditor.accountants.losses.pairs import Array, log1mexp, log_sum

# Function that maps Rényi orders, (n,), to Rényi divergences, (n,).
RenyiCurve = Callable[[Array], Array]
# Largest order up to which the moments of the Gaussian ratio minus 1 are integrated.
_MOST_MOMENTS = 256
# Sensitivity over standard deviation above which integrals between integer orders would need too
# many points.
_WIDE = 8.0
_ROUNDING = 2.0**-48


def poisson_gaussian_curve(rate: float, noise: float, orders: Array) -> Array:
    """Computes the Rényi curve of Gaussian noise on a Poisson sample, or an upper bound on it, for
    adding or removing one record.

    - ``rate``: probability q that the record is in the sample.
    - ``noise``: standard deviation divided by sensitivity.
    - ``orders``: Rényi orders a, (n,).

    The result is the Rényi divergence at every order, (n,), or the upper bound. Mironov, Talwar and
    Zhang 2019: the divergence of P = (1 - q) N(0) + q N(mu) from Q = N(0), with mu = 1/noise, is
    the larger of the two directions. Let A = E_Q[(P/Q)^a]. At integer orders, A - 1 is the sum of
    C(a, j) (1 - q)^(a-j) q^j (e^(mu^2 j (j - 1)/2) - 1) over j >= 2. Between integer orders, A is
    integrated numerically (the trapezoid rule is exact to rounding for these integrands). For mu >
    8, ln A is interpolated, which gives an upper bound because ln A is convex in a.
    """
    if rate == 0 or math.isinf(noise):
        return np.zeros(len(orders))
    if rate == 1 or noise < 1e-100:
        return gaussian(noise, orders)
    mu = 1.0 / noise

    def whole(a: int) -> float:
        j = np.arange(2, a + 1, dtype=np.float64)
        terms = _log_choose(a, j) + (a - j) * math.log1p(-rate) + j * math.log(rate)
        grown = j * (j - 1) * (mu**2 / 2.0)
        return _log1p_sum(terms + grown + log1mexp(grown))

    if mu > _WIDE:
        return _interpolated(whole, orders)
    whole_order = orders == np.floor(orders)
    found = np.array(
        [whole(int(a)) if w else 0.0 for a, w in zip(orders, whole_order, strict=True)]
    )
    if not whole_order.all():
        found[~whole_order] = _integrated(rate, mu, orders[~whole_order])
    return found / (orders - 1.0)


def fixed_size_curve(
    rate: float, curve: RenyiCurve, orders: Array, largest: float = math.inf
) -> Array:
    """Computes an upper bound on the Rényi curve of any mechanism on a sample of fixed size, (n,).

    The sample is drawn without replacement. Neighbouring data sets differ in one replaced record.

    - ``rate``: sample size divided by the number of records, q.
    - ``curve``: Rényi curve of the mechanism on the sample.
    - ``orders``: Rényi orders a, (n,).
    - ``largest``: value of ``curve`` at order infinity.

    Wang, Balle and Kasiviswanathan 2019, Theorem 9: with r(a) the curve and r(inf) = ``largest``,
    at integer orders (a - 1) times the divergence is at most

        ln(1 + q^2 C(a, 2) min{4 (e^r(2) - 1), e^r(2) min{2, (e^r(inf) - 1)^2}}
             + sum over j = 3..a of q^j C(a, j) e^((j-1) r(j)) min{2, (e^r(inf) - 1)^j}).

    Between integer orders the bound is interpolated: (a - 1) times the divergence is convex (their
    Corollary 10). The result is never above ``curve``: a sample that is drawn independently of the
    data makes a mixture, and the divergence of two mixtures is at most the largest divergence of
    their parts.
    """
    return _fixed_size(rate, curve, orders, largest, None)


def fixed_size_gaussian_curve(rate: float, noise: float, orders: Array) -> Array:
    """Computes an upper bound on the Rényi curve of Gaussian noise on a sample of fixed size, under
    replacement of one record.

    The bound is computed as in ``fixed_size_curve``, with tighter factors in its sum over j: from j
    = 3 on, the factor of q^j C(a, j) is the smaller of 2 e^((j-1) r(j)) and 4 sqrt(B B'), with r
    the Rényi curve of the noise. B and B' are the moments E_Q[(P/Q - 1)^l] of the even numbers l
    next to j on either side, or of j itself if it is even (Wang, Balle and Kasiviswanathan 2019,
    Theorem 27). The paper computes these moments from differences, which cancel; here they are
    integrated.

    - ``rate``: sample size divided by the number of records.
    - ``noise``: standard deviation divided by sensitivity.
    - ``orders``: Rényi orders, (n,); the result has the same shape.
    """
    if rate == 0 or math.isinf(noise):
        return np.zeros(len(orders))
    if rate == 1 or noise < 1e-100:
        return gaussian(noise, orders)
    return _fixed_size(rate, lambda a: gaussian(noise, a), orders, math.inf, _moments(1.0 / noise))


def gaussian(noise: float, orders: Array) -> Array:
    """Computes the Rényi divergence of Gaussian noise at every order a of ``orders``: a / (2 z^2),
    where z = ``noise`` is standard deviation divided by sensitivity.
    """
    if noise == 0:
        return np.full(len(orders), np.inf)
    with np.errstate(over="ignore"):
        return np.asarray(orders * 0.5 / noise / noise)


def _fixed_size(
    rate: float, curve: RenyiCurve, orders: Array, largest: float, moments: Array | None
) -> Array:
    if rate == 0:
        return np.zeros(len(orders))
    plain = curve(orders)
    most = math.ceil(float(orders.max()))
    j = np.arange(2.0, most + 1.0)
    inner = curve(j)
    if not np.isfinite(inner[0]):
        return plain
    log_gap = _log_expm1(largest)
    log_zeta = (j - 1) * inner + np.minimum(math.log(2.0), j * log_gap)
    log_zeta[0] = min(math.log(4.0) + _log_expm1(float(inner[0])), float(log_zeta[0]))
    if moments is not None:
        # Even moments next to j: rounded down, and rounded up.
        even = np.arange(3, min(most, _MOST_MOMENTS - 1) + 1)
        tight = math.log(4.0) + (moments[even // 2 * 2] + moments[(even + 1) // 2 * 2]) / 2.0
        log_zeta[1 : 1 + len(even)] = np.minimum(log_zeta[1 : 1 + len(even)], tight)

    def whole(a: int) -> float:
        part = j[: a - 1]
        return _log1p_sum(part * math.log(rate) + _log_choose(a, part) + log_zeta[: a - 1])

    return np.minimum(_interpolated(whole, orders), plain)


def _moments(mu: float) -> Array:
    """Logarithms of the moments E_Q[(P/Q - 1)^l] of P = N(mu, 1) and Q = N(0, 1), by l from 0 to
    ``_MOST_MOMENTS``.

    The value is inf (unknown) if l is odd, and for mu > 2.
    """
    curve = np.full(_MOST_MOMENTS + 1, np.inf)
    curve[0] = 0.0
    step = 0.25 * min(1.0, 1.0 / mu)
    if mu > 2.0:
        return curve
    for level in range(2, _MOST_MOMENTS + 1, 2):
        # If mu is small, the integrand is that of x^level, which is largest at sqrt(level).
        reach = 13.0 + math.sqrt(level)
        x = np.arange(-reach, level * mu + reach, step)
        loss = mu * x - mu**2 / 2.0
        with np.errstate(divide="ignore"):
            size = np.where(loss > 30.0, loss, np.log(np.abs(np.expm1(np.minimum(loss, 30.0)))))
        curve[level] = log_sum(level * size - x * x / 2.0) + math.log(step / math.sqrt(2 * math.pi))
    return curve + _ROUNDING


def _integrated(rate: float, mu: float, orders: Array) -> Array:
    """ln E[(1 - q + q e^l)^a] at every order a by the trapezoid rule, with q = ``rate`` and l = mu
    x - mu^2/2 at x ~ N(0, 1).
    """
    step = 0.2 * min(1.0, 1.0 / mu)
    totals = np.zeros(len(orders))
    for i, a in enumerate(orders):
        x = np.arange(-13.0, a * mu + 13.0, step)
        loss = mu * x - mu**2 / 2.0
        grown = np.expm1(np.minimum(loss, 600.0)) * rate
        # At larger losses e^l is not a finite double.
        large = np.logaddexp(math.log1p(-rate), loss + math.log(rate))
        power = a * np.where(loss > 600.0, large, np.log1p(grown))
        weight = -x * x / 2.0 + math.log(step / math.sqrt(2 * math.pi))
        total = log_sum(power + weight)
        if total < 0.1:
            # A - 1 = E[r^a - 1 - a (r - 1)], whose terms are all small if r is near 1.
            masses = np.exp(weight)
            near = power < 1.0
            rest = np.where(
                near, np.expm1(np.minimum(power, 1.0)) * masses, np.exp(power + weight) - masses
            )
            over = float(np.sum(rest - a * grown * masses))
            lost = _ROUNDING * a * float(np.abs(grown) @ masses)
            total = math.log1p(max(over, 0.0) + lost)
        totals[i] = total + _ROUNDING * max(total, 0.0)
    return totals


def _interpolated(whole: Callable[[int], float], orders: Array) -> Array:
    """Rényi divergences at ``orders``, interpolated from integer orders, where ``whole(a)`` is (a -
    1) times the divergence.

    This product is interpolated linearly.
    """
    low, high = np.floor(orders).astype(int), np.ceil(orders).astype(int)
    known = {a: whole(a) if a > 1 else 0.0 for a in sorted({*low.tolist(), *high.tolist()})}
    first, second = (np.array([known[a] for a in at.tolist()]) for at in (low, high))
    share = orders - low
    line = np.where(share > 0, first + share * (second - first), first)
    return np.asarray(line / (orders - 1.0))


def _log_choose(n: int, k: Array) -> Array:
    return np.asarray(gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0))


def _log_expm1(x: float) -> float:
    """ln(e^x - 1)."""
    if x <= 0:
        return -math.inf
    return x + math.log(-math.expm1(-x))


def _log1p_sum(x: Array) -> float:
    """ln(1 + sum of e^x), with an allowance for rounding."""
    total = log_sum(x)
    found = math.log1p(math.exp(total)) if total < 700.0 else total
    # The relative error of log-factorials is 1e-16, and they are as large as a million.
    return found * (1.0 + 1e-9)
