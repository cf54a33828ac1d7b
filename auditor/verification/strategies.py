"""Hypothesis strategies for what mechanisms take: ends first, for there the worst ratios are."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

    from fedrec_auditor.targets.mechanisms.base import Domain


def inputs_of(domain: Domain) -> SearchStrategy[Any]:
    """Every input of ``domain``, biased to its ends, and shrinking towards the simplest.

    Numbers for a domain without shape, float64 arrays of its shape otherwise: constant ones,
    ones with few entries that differ, and any. Finite, however far the domain reaches.

    >>> from fedrec_auditor.targets.mechanisms.bit_flip import BitFlip
    >>> inputs_of(BitFlip.symmetric(1.0).domain)
    sampled_from([0, 1])
    """
    from hypothesis import strategies as st
    from hypothesis.extra import numpy as hnp

    entries = _entries(domain)
    if not domain.shape:
        return entries
    constant = entries.map(lambda entry: np.full(domain.shape, entry, dtype=np.float64))
    any_array = hnp.arrays(np.float64, domain.shape, elements=entries, fill=entries)
    return st.one_of(constant, any_array)


def _entries(domain: Domain) -> SearchStrategy[Any]:
    from hypothesis import strategies as st

    if domain.values is not None:
        return st.sampled_from([plain(value) for value in domain.values])
    low, high = (end if math.isfinite(end) else None for end in (domain.low, domain.high))
    marks = {0.0, 1.0, -1.0, domain.low, domain.high}
    inside = [m for m in marks if domain.low <= m <= domain.high and math.isfinite(m)]
    return st.one_of(
        st.sampled_from(sorted(inside, key=lambda mark: (abs(mark), mark < 0))).map(plain),
        st.floats(low, high, allow_nan=False, allow_infinity=False),
    )


def plain(value: float) -> int | float:
    """A whole number as an int: witnesses are read by people."""
    return int(value) if float(value).is_integer() and abs(value) < 2**53 else float(value)
