"""Distance of uploaded item rows to the rows that local training on each rating would produce.

The rows result from local steps on a squared error. The computation is compiled by numba.
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
    """Computes the squared distance of each uploaded row to the result of each possible rating.

    rows: rows before the steps (n, m, d)
    after: rows as uploaded (n, m, d)
    vectors: vectors of the users (n, d)
    rates: learning rate of a step on one row (n,)
    ratings: possible ratings (R,)
    steps: number of steps
    bound: largest squared norm of a row after each step; entries are also at least 0
    out: array that receives the result (n, m, R)
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
