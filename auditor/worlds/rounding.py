"""Numbers that are equal on all processors, so that no tie is broken by their last bits."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

STEP = 2.0**-32
"""Of numbers of size 1, far above what the order of a sum changes, far below what data tell."""
_LEAST = 1e-250
"""Of sizes: quotients by a step stay finite."""


def rounded(values: ArrayLike, size: ArrayLike = 1.0) -> NDArray[Any]:
    """``values`` in steps of 2^-32 of the power of two at or above ``size``.

    Linear algebra adds in an order that the processor sets, so the last bits of a sum are the
    machine's. Scores are rounded before a rule is chosen by them, and before they are compared with
    its cuts. Infinite numbers and NaN stay as they are. Arrays broadcast.
    """
    step = STEP * np.exp2(np.ceil(np.log2(np.clip(np.asarray(size, float), _LEAST, 1.0 / _LEAST))))
    return np.asarray(np.rint(np.asarray(values) / step) * step + 0.0)
