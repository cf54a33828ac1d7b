"""Hockey-stick divergences of discrete distributions and of Gaussian noise, and a search by
bisection.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements import check_epsilon

# Array of doubles, of any shape.
Array = NDArray[np.float64]


class WorstEvent(NamedTuple):
    """Event S of outputs that gives the largest epsilon = ln((P(S) - delta)/Q(S)), for two output
    distributions P and Q.

    S consists of the first outputs in the order of descending P/Q.

    - ``epsilon``: the largest epsilon; -inf if no event is more likely than delta under P.
    - ``n_outputs``: number of outputs in S.
    - ``mass_p``: P(S).
    - ``log_mass_q``: ln Q(S).
    """

    epsilon: float
    n_outputs: int
    mass_p: float
    log_mass_q: float


def compute_log_ratios(log_p: Array, log_q: Array) -> Array:
    """Computes ln(p/q) entry by entry from the log-probabilities ln p and ln q.

    The result is -inf if p = 0 (whatever q is), and inf if only q = 0.
    """
    possible = log_p > -np.inf
    return np.where(possible, log_p - np.where(possible, log_q, 0.0), -np.inf)


def compute_hockey_stick(log_p: Array, log_q: Array, epsilon: float) -> float:
    """Computes the hockey-stick divergence: the sum of max(0, p - e^epsilon q) over all outputs, a
    number in [0, 1].

    ``log_p`` and ``log_q`` are the log-probabilities of the outputs under two inputs, (outputs,).
    """
    ratio = compute_log_ratios(log_p, log_q)
    return min(1.0, float(np.sum(np.exp(log_p) * -np.expm1(np.minimum(epsilon - ratio, 0.0)))))


def find_worst_event(log_p: Array, log_q: Array, delta: float, rounding: float = 0.0) -> WorstEvent:
    """Finds the event S of outputs with the largest ln((P(S) - delta)/Q(S)), for the output
    distributions P and Q of two inputs.

    - ``log_p``, ``log_q``: log-probabilities of the outputs under P and Q, (outputs,), sorted by
      descending ratio P/Q.
    - ``delta``: delta of (epsilon, delta)-DP.
    - ``rounding``: possible relative error of P(S), which is subtracted.

    The largest value is the smallest epsilon at which P(S) - e^epsilon Q(S) is at most ``delta``
    for every event S.
    """
    # Logarithms are needed because a probability under Q underflows long before it becomes
    # irrelevant. Only events that consist of the first outputs are tried, because one of them
    # attains the largest difference at every epsilon.
    mass_p, log_mass_q = np.cumsum(np.exp(log_p)), _log_cumsum(log_q)
    with np.errstate(divide="ignore"):
        excess = np.log(np.maximum(mass_p * max(0.0, 1.0 - rounding) - delta, 0.0))
    epsilons = compute_log_ratios(excess, log_mass_q)
    k = int(np.argmax(epsilons))
    return WorstEvent(float(epsilons[k]), k + 1, float(mass_p[k]), float(log_mass_q[k]))


def _log_cumsum(log_mass: Array) -> Array:
    """ln of the cumulative sums of e^log_mass, by ordinary sums if they do not underflow."""
    top, seen = float(log_mass.max()), log_mass > -np.inf
    if not np.isfinite(top) or top - float(log_mass[int(np.argmax(seen))]) > 600.0:
        return np.asarray(np.logaddexp.accumulate(log_mass))
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.cumsum(np.exp(log_mass - top))) + top)


def find_min_epsilon(log_p: Array, log_q: Array, delta: float) -> float:
    """Computes the smallest epsilon >= 0 with P(S) <= e^epsilon Q(S) + ``delta`` for every event S
    of outputs.

    - ``log_p``, ``log_q``: log-probabilities of the outputs under two inputs (P and Q), (outputs,),
      sorted by descending ratio P/Q.

    >>> import numpy as np
    >>> p, q = np.array([0.75, 0.25]), np.array([0.25, 0.75])
    >>> round(find_min_epsilon(np.log(p), np.log(q), 0.0), 4)  # ln 3
    1.0986
    >>> round(find_min_epsilon(np.log(p), np.log(q), 0.25), 4)  # ln 2
    0.6931
    """
    return max(0.0, find_worst_event(log_p, log_q, delta).epsilon)


# Standard deviations beyond which every delta is below the smallest double.
_FAR = 39.0
# Nodes and weights of the Gauss-Legendre rule on [0, 1].
_NODES, _WEIGHTS = (np.polynomial.legendre.leggauss(16) + np.array([[1.0], [0.0]])) / 2.0
_LOG_ROOT_TAU = 0.5 * math.log(2.0 * math.pi)


def compute_gaussian_delta(mu: float, epsilon: float) -> float:
    """Computes the smallest delta at ``epsilon`` for two unit normal distributions whose means
    differ by ``mu``.

    The value is Phi(-t) - e^eps Phi(-t - mu) with t = eps/mu - mu/2 (Balle and Wang 2018, Theorem
    8), where Phi is the normal distribution function.
    """
    # Since (t + mu)^2 = t^2 + 2 eps, the second term is phi(t) r(t + mu) with r(x) =
    # Phi(-x)/phi(x): e^eps does not overflow, and no two large numbers of the size of epsilon
    # cancel. For mu < 1 the two terms would cancel, so r' = x r - 1 is integrated by the Gauss-
    # Legendre rule.
    t = epsilon / mu - mu / 2.0
    density = math.exp(-0.5 * t * t - _LOG_ROOT_TAU)
    if mu < 1.0:
        slopes = [1.0 - x * _mills_ratio(x) for x in t + mu * _NODES]
        return density * mu * float(_WEIGHTS @ slopes)
    beyond = density * _mills_ratio(t) if t > 0.0 else float(special.ndtr(-t))
    return max(0.0, beyond - density * _mills_ratio(t + mu))


def bisect_threshold(
    holds: Callable[[float], bool], *, max_value: float = math.inf, precision: float = 0.0
) -> float:
    """Returns the threshold of a monotone condition, by bisection.

    - ``holds``: the condition: false below the threshold, and true above it.
    - ``max_value``: limit of the search; the result is infinite if a number of at least this size
      fails the condition.
    - ``precision``: relative precision of the result; 0 bisects down to neighbouring doubles.

    The result is the largest tested number that fails the condition; 0 if no number fails.

    >>> bisect_threshold(lambda x: x * x >= 2, precision=1e-3)
    1.4140625
    """
    # The function tests 1, 2, 4, ... until the condition holds, and then bisects.
    low, high = 0.0, 1.0
    while not holds(high):
        if high >= max_value:
            return math.inf
        low, high = high, 2.0 * high
    while high - low > precision * high and low < (middle := (low + high) / 2.0) < high:
        low, high = (low, middle) if holds(middle) else (middle, high)
    return low


def find_gaussian_mu(epsilon: float, delta: float) -> float:
    """Computes the largest mu = sensitivity/sigma for which the Gaussian mechanism is (``epsilon``,
    ``delta``)-DP.

    So sensitivity / mu is the smallest sufficient sigma (Balle and Wang 2018, Algorithm 1). An
    allowance for rounding is subtracted from mu. Raises InputError unless delta is in (0, 1) and
    epsilon is finite.
    """
    # The textbook's sigma = sensitivity sqrt(2 ln(1.25/delta)) / epsilon is proved only for epsilon
    # < 1, where it is larger than necessary. For large epsilons it is too small (from 8.42 on at
    # delta 1e-5).
    if not 0.0 < delta < 1.0:
        raise InputError(f"Expected delta in (0, 1), got delta={delta!r}. Give 1e-5, for example.")
    if not check_epsilon(epsilon) < math.inf:
        raise InputError(f"Expected a finite epsilon, got {epsilon=}. Give 1.0, for example.")
    mu = bisect_threshold(lambda mu: compute_gaussian_delta(mu, epsilon) > delta)
    return mu * (1.0 - 2.0**-46)


def find_gaussian_epsilon(delta: float, mu: float) -> float:
    """Computes the smallest epsilon at ``delta`` of a Gaussian mechanism with ``mu`` = sensitivity
    divided by standard deviation.

    For n uses with noise multiplier z, ``mu`` is sqrt(n)/z. The result is infinite at delta 0,
    unless ``mu`` is 0. For mu up to 1e4 and delta from 1e-300 up, the absolute error is at most
    1e-12 + 1e-12 mu + 1e-15 eps.

    >>> round(find_gaussian_epsilon(1e-5, 1.0), 3)
    4.377
    """
    # The equation is solved for a = eps/mu - mu/2, because the privacy curve is a smooth function
    # of a for arbitrarily large epsilon.
    from scipy import optimize

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

    Source: Balle and Wang 2018, Theorem 8. The relative error of delta is about 1e-15 (1 + a^2) (1
    + (1 + abs(a))/mu).
    """
    # With b = a + mu, delta is Phi(-a) - phi(a) R(b), where R = Phi(-b)/phi(b) is the Mills ratio,
    # so that e^eps is not needed.
    log_first = float(special.log_ndtr(-a))
    mills = _mills_ratio(a + mu)
    if mills == 0.0:
        return log_first
    log_second = math.log(mills) - 0.5 * (a * a + math.log(2.0 * math.pi))
    if log_second >= log_first:
        return -math.inf
    return log_first + math.log(-math.expm1(log_second - log_first))


def _mills_ratio(x: float) -> float:
    """Mills ratio of the normal distribution, Phi(-x)/phi(x), for x >= -1."""
    return math.sqrt(math.pi / 2.0) * float(special.erfcx(x / math.sqrt(2.0)))
