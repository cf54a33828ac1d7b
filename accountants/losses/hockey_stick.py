"""The hockey-stick divergence of two finite distributions, and the epsilon at a delta."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class WorstEvent(NamedTuple):
    """The event S of the first ``size`` outputs, and ``epsilon`` = ln((P(S) - delta)/Q(S)).

    ``mass_p`` is P(S) and ``log_mass_q`` is ln Q(S). ``epsilon`` is -inf where no event is more
    likely than delta under P.
    """

    epsilon: float
    size: int
    mass_p: float
    log_mass_q: float


def log_ratio(log_p: Array, log_q: Array) -> Array:
    """ln(p/q) of log-probabilities: inf for q = 0 < p, -inf for p = 0, also where both are 0."""
    possible = log_p > -np.inf
    return np.where(possible, log_p - np.where(possible, log_q, 0.0), -np.inf)


def hockey_stick(log_p: Array, log_q: Array, epsilon: float) -> float:
    """The sum over all outputs of max(0, p - e^epsilon q), a number in [0, 1]."""
    ratio = log_ratio(log_p, log_q)
    return min(1.0, float(np.sum(np.exp(log_p) * -np.expm1(np.minimum(epsilon - ratio, 0.0)))))


def worst_event(log_p: Array, log_q: Array, delta: float, rounding: float = 0.0) -> WorstEvent:
    """The event that leaves the largest epsilon at ``delta``.

    ``log_p`` and ``log_q`` are log-probabilities, (outputs,), sorted by falling ratio p/q; in logs,
    as q falls below the smallest double long before its logarithm matters no more. The divergence
    at epsilon is the largest P(S) - e^epsilon Q(S) over the leading events S, so epsilon is the
    largest ln((P(S) - delta)/Q(S)). ``rounding`` is the relative error that P(S) may have; it is
    subtracted.
    """
    mass_p, log_mass_q = np.cumsum(np.exp(log_p)), _log_cumsum(log_q)
    with np.errstate(divide="ignore"):
        excess = np.log(np.maximum(mass_p * max(0.0, 1.0 - rounding) - delta, 0.0))
    epsilons = log_ratio(excess, log_mass_q)
    k = int(np.argmax(epsilons))
    return WorstEvent(float(epsilons[k]), k + 1, float(mass_p[k]), float(log_mass_q[k]))


def _log_cumsum(log_mass: Array) -> Array:
    """ln of the cumulative sums of e^log_mass; by plain sums where the doubles have room."""
    top, seen = float(log_mass.max()), log_mass > -np.inf
    if not np.isfinite(top) or top - float(log_mass[int(np.argmax(seen))]) > 600.0:
        return np.asarray(np.logaddexp.accumulate(log_mass))
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.cumsum(np.exp(log_mass - top))) + top)


def least_epsilon(log_p: Array, log_q: Array, delta: float) -> float:
    """The least epsilon >= 0 at which P exceeds e^epsilon Q by at most ``delta`` on every event.

    Arguments are those of ``worst_event``.

    >>> import numpy as np
    >>> p, q = np.array([0.75, 0.25]), np.array([0.25, 0.75])
    >>> round(least_epsilon(np.log(p), np.log(q), 0.0), 4)  # ln 3
    1.0986
    >>> round(least_epsilon(np.log(p), np.log(q), 0.25), 4)  # ln 2
    0.6931
    """
    return max(0.0, worst_event(log_p, log_q, delta).epsilon)
