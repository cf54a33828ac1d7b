"""A direction of features, learned from the rows of known coins, and shrunk."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
# Entries beyond these quantiles of their column are brought back to them.
_REACH = (0.005, 0.995)


def discriminant(rows: Matrix, chosen: NDArray[np.intp], labels: NDArray[np.bool_]) -> Matrix:
    """Scores (n,) of ``rows`` (n, d) along the direction that tells labels apart, larger for true.

    ``labels`` (k,) are those of the rows ``chosen`` (k,). The covariance is that of all rows, in
    units of each column's deviation, shrunk towards a multiple of the identity (Ledoit and Wolf
    2004), so that there may be more columns than rows. All scores are 0 if the chosen rows have one
    label only.
    """
    from sklearn.covariance import ledoit_wolf_shrinkage

    if labels.all() or not labels.any():
        return np.zeros(len(rows))
    most = float(np.abs(rows[np.isfinite(rows)]).max(initial=1.0))
    x = np.clip(rows, -most, most)
    x = np.clip(x, *np.quantile(x, _REACH, axis=0, method="nearest"))
    x = x - x.mean(axis=0)
    spread = x.std(axis=0)
    x = x[:, spread > 0] / spread[spread > 0]
    if x.shape[1] == 0:
        return np.zeros(len(rows))
    shift = x[chosen[labels]].mean(axis=0) - x[chosen[~labels]].mean(axis=0)
    if x.shape[1] == 1:
        return np.asarray(x[:, 0] * np.sign(shift))
    shrunk = float(ledoit_wolf_shrinkage(x, assume_centered=True))
    n, kept = len(x), 1.0 - shrunk
    if x.shape[1] <= n:
        covariance = kept * (x.T @ x) / n + shrunk * np.eye(x.shape[1])
        return np.asarray(x @ np.linalg.solve(covariance, shift))
    # (s I + k X'X / n)^-1 = (I - X' (s n / k I + X X')^-1 X) / s, with a matrix of n by n
    gram = x @ x.T
    ridge = max(shrunk, 1e-9) * n / max(kept, 1e-9)
    along = x @ shift
    return np.asarray(along - gram @ np.linalg.solve(gram + ridge * np.eye(n), along))
