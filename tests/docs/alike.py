"""Comparison of a page with today's output: equal words, numbers within a tenth.

A game's measurement depends on a training, whose sums differ in the last bits between processors.
"""

from __future__ import annotations

import math
import re

_NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?")


def alike(shown: str, printed: str) -> bool:
    """Whether the words are equal and each number is within a tenth of its counterpart.

    >>> alike("at least 1.066, 24 of 40", "at least 1.072, 24 of 40")
    True
    >>> alike("at least 1.066", "at least 1.66"), alike("3 refuted", "3 proved")
    (False, False)
    """
    one, other = " ".join(shown.split()), " ".join(printed.split())
    return _NUMBER.split(one) == _NUMBER.split(other) and all(
        math.isclose(_value(a), _value(b), rel_tol=0.1)
        for a, b in zip(_NUMBER.findall(one), _NUMBER.findall(other), strict=True)
    )


def _value(number: str) -> float:
    return float(number.replace(",", ""))
