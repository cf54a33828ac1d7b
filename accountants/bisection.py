"""Bisection: finds the number from which on a monotone condition holds."""

from __future__ import annotations

import math
from collections.abc import Callable


def last_failure(
    holds: Callable[[float], bool], *, max_value: float = math.inf, close: float = 0.0
) -> float:
    """The largest number above 0 known to fail ``holds``, which every larger number may satisfy.

    - ``holds``: the condition.
    - ``max_value``: the search ends once a number of at least ``max_value`` fails.
    - ``close``: relative precision; 0 for neighbouring doubles.

    The upper limit is doubled from 1 on, then the interval is bisected. The result is infinite if
    all numbers tried, up to one of at least ``max_value``, fail, and 0 if none was seen to fail.

    >>> last_failure(lambda x: x * x >= 2, close=1e-3)
    1.4140625
    """
    low, high = 0.0, 1.0
    while not holds(high):
        if high >= max_value:
            return math.inf
        low, high = high, 2.0 * high
    while high - low > close * high and low < (middle := (low + high) / 2.0) < high:
        low, high = (low, middle) if holds(middle) else (middle, high)
    return low
