"""Bisection search for the threshold above which a monotone condition on a number holds."""

from __future__ import annotations

import math
from collections.abc import Callable


def bisect_threshold(
    holds: Callable[[float], bool], *, max_value: float = math.inf, close: float = 0.0
) -> float:
    """Returns the threshold of a monotone condition: the largest tested number above 0 for which
    ``holds`` is false.

    - ``holds``: the condition. If it is true for a number, it is true for every larger number.
    - ``max_value``: the search stops once a number of at least ``max_value`` fails the condition.
    - ``close``: relative precision of the result. The value 0 bisects down to neighbouring doubles.

    The function doubles the upper limit, starting from 1, until the condition holds, and then
    bisects. It returns infinity if all tested numbers fail, up to one of at least ``max_value``,
    and 0 if no tested number fails.

    >>> bisect_threshold(lambda x: x * x >= 2, close=1e-3)
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
