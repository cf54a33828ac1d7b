"""What rounding may have done to log-probabilities, so that it is not taken for a violation."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

DEEPEST = 600.0
"""A claim that leaves an output a log-probability below minus this cannot be refuted by "log 0"."""
# Doubles keep nothing below e^-745 and few digits below e^-730.
_NOTHING, _FEW_DIGITS = -746.0, -730.0
_COARSE = 2.0**10


def unlost(laws: NDArray[np.float64], claim: float) -> NDArray[np.float64]:
    """``laws`` (inputs, outputs) without ratios that exist only since a probability underflowed.

    A law computed as log(p) says log 0 where p is below the smallest double. So a log 0 (or what
    few digits are left just above it) counts only where ``claim`` forbids so small a probability:
    elsewhere it is raised until the claim allows it. Laws computed in logs reach below that and
    keep all they say but log 0.
    """
    high = laws.max(axis=0)
    doubtful = np.isneginf(laws) | ((laws > _NOTHING) & (laws < _FEW_DIGITS))
    lost = doubtful & (high - claim < -DEEPEST)
    return np.where(lost, np.minimum(high, -DEEPEST), laws)


def in_singles(laws: NDArray[np.float64]) -> bool:
    """Whether log-probabilities were computed in single precision, by the bits that they have."""
    finite = laws[np.isfinite(laws)]
    with np.errstate(over="ignore"):
        fit = np.array_equal(finite.astype(np.float32), finite)
    return fit and not np.array_equal(np.rint(finite * _COARSE), finite * _COARSE)
