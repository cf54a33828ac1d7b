"""The exact privacy curve of Gaussian noise, in logs, and its inverse."""

from __future__ import annotations

import math

from scipy import optimize, special

# An epsilon at which no delta above the smallest double is left: 39 deviations.
_FAR = 39.0


def gaussian_epsilon(delta: float, mu: float) -> float:
    """The least epsilon at ``delta`` of Gaussian noise: infinite at 0, unless ``mu`` is 0.

    ``mu`` is sensitivity over standard deviation; n uses of noise z have mu = sqrt(n)/z. Off by
    1e-12 + 1e-12 mu + 1e-15 eps at most, for mu up to 1e4 and delta from 1e-300 up.

    Solved for a = eps/mu - mu/2, of which the curve is smooth however large epsilon is.

    >>> round(gaussian_epsilon(1e-5, 1.0), 3)
    4.377
    """
    if mu == 0 or delta >= 1:
        return 0.0
    if delta <= 0 or math.isinf(mu):
        return math.inf
    level = math.log(delta)
    lowest = -mu / 2.0
    if _log_delta(lowest, mu) <= level:
        return 0.0
    a = optimize.brentq(
        lambda a: _log_delta(a, mu) - level, max(lowest, -_FAR), _FAR, xtol=1e-13, rtol=1e-15
    )
    return max(0.0, mu * (float(a) - lowest))


def _log_delta(a: float, mu: float) -> float:
    """ln of delta(eps) = Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu) at a = eps/mu - mu/2.

    Balle and Wang 2018, Theorem 8. With b = a + mu it is Phi(-a) - phi(a) R(b), R = Phi(-b)/phi(b)
    the Mills ratio, so that e^eps is not needed. Relative error of delta about
    1e-15 (1 + a^2) (1 + (1 + abs(a))/mu).
    """
    log_first = float(special.log_ndtr(-a))
    mills = math.sqrt(math.pi / 2.0) * float(special.erfcx((a + mu) / math.sqrt(2.0)))
    if mills == 0.0:
        return log_first
    log_second = math.log(mills) - 0.5 * (a * a + math.log(2.0 * math.pi))
    if log_second >= log_first:
        return -math.inf
    return log_first + math.log(-math.expm1(log_second - log_first))
