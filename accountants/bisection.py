"""Where a condition that holds from some number on begins to hold."""

from __future__ import annotations

import math
from collections.abc import Callable


def last_failure(
    holds: Callable[[float], bool], *, most: float = math.inf, close: float = 0.0
) -> float:
    """The largest number above 0 known to fail ``holds``, which every larger number may pass.

    Doubled from 1 on, then halved to a relative ``close``, or to neighbouring doubles. Infinite
    where ``most`` and all numbers below it fail, 0 where none was seen to.

    >>> last_failure(lambda x: x * x >= 2, close=1e-3)
    1.4140625
    """
    low, high = 0.0, 1.0
    while not holds(high):
        if high >= most:
            return math.inf
        low, high = high, 2.0 * high
    while high - low > close * high and low < (middle := (low + high) / 2.0) < high:
        low, high = (low, middle) if holds(middle) else (middle, high)
    return low
