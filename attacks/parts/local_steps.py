"""Distance of uploaded item rows from the rows that local training on each rating would give.

A local step is gradient descent on the squared error of a rating. The computation is compiled by
numba.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.targets.compiled import REORDERED_MATH, compiled

Floats = NDArray[np.float32]


@compiled(fastmath=REORDERED_MATH)
def fill_distances(
    rows: Floats,
    after: Floats,
    vectors: Floats,
    rates: Floats,
    ratings: Floats,
    steps: int,
    bound: np.float32,
    out: Floats,
) -> None:
    """Computes how far each uploaded item row is from the result of training on each rating.

    The squared distance is written into ``out``. A training step moves the row along the user's
    vector, to reduce the squared error of the rating. Then entries below 0 are set to 0, and a row
    with a squared norm above ``bound`` is shortened.

    rows: item rows before the steps (n users, m items, d)
    after: item rows as uploaded (n, m, d)
    vectors: vectors of the users (n, d)
    rates: learning rate of a step on one row (n,)
    ratings: possible ratings (R,)
    steps: number of steps
    bound: largest squared norm of a row after each step
    out: array that receives the squared distances (n, m, R)
    """
    n, m, d = rows.shape
    now = np.empty(d, np.float32)
    for i in range(n):
        rate = np.float32(2) * rates[i]
        for j in range(m):
            for r in range(len(ratings)):
                for k in range(d):
                    now[k] = rows[i, j, k]
                for _ in range(steps):
                    along = np.float32(0)
                    for k in range(d):
                        along += now[k] * vectors[i, k]
                    along = rate * (ratings[r] - along)
                    size = np.float32(0)
                    for k in range(d):
                        x = now[k] + along * vectors[i, k]
                        x = x if x > 0 else np.float32(0)
                        now[k] = x
                        size += x * x
                    if size > bound:
                        scale = np.sqrt(bound / size)
                        for k in range(d):
                            now[k] *= scale
                far = np.float32(0)
                for k in range(d):
                    far += (now[k] - after[i, j, k]) ** 2
                out[i, j, r] = far
