"""A device's pass over its ratings, in compiled code; numba is imported with it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.targets.compiled import FUSED, compiled

F64 = NDArray[np.float64]


@compiled(fastmath=FUSED)
def descend(
    starts: NDArray[np.int64],
    items: NDArray[np.int64],
    ratings: F64,
    table: F64,
    users: F64,
    gradients: F64,
    rate: float,
    regularization: float,
) -> None:
    """Moves ``users`` (n, d) rating by rating; ``gradients`` (nnz, d) are what they send.

    Device i has the ratings ``starts[i]`` to ``starts[i + 1]`` of ``items``, whose rows in
    ``table`` (M, d) stay as they are. A gradient is of the user's vector after the rating's step.
    """
    for i in range(len(users)):
        for e in range(starts[i], starts[i + 1]):
            error = ratings[e]
            for k in range(users.shape[1]):
                error -= users[i, k] * table[items[e], k]
            for k in range(users.shape[1]):
                v, u = table[items[e], k], users[i, k]
                users[i, k] = u + 2.0 * rate * (error * v - regularization * u)
                gradients[e, k] = 2.0 * rate * (regularization * v - error * users[i, k])
