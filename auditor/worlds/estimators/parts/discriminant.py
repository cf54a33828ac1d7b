"""Directions of features that tell two kinds of rows apart, learned from few of them, shrunk."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
# Entries beyond these quantiles of their column are brought back to them.
_REACH = (0.005, 0.995)


def discriminants(rows: Matrix, contrasts: Matrix) -> Matrix:
    """Scores (n, k) of ``rows`` (n, d) along k linear discriminants.

    A column of ``contrasts`` (n, k) weighs the rows whose kind is known so that the weighted sum is
    a difference of means; see ``contrast``. The covariance is that of all rows, in units of each
    column's deviation, shrunk towards a multiple of the identity (Ledoit and Wolf 2004), so that
    there may be more columns than rows.
    """
    from sklearn.covariance import ledoit_wolf_shrinkage

    most = float(np.abs(rows[np.isfinite(rows)]).max(initial=1.0))
    x = np.clip(rows, -most, most)
    x = np.clip(x, *np.quantile(x, _REACH, axis=0, method="nearest"))
    x = x - x.mean(axis=0)
    spread = x.std(axis=0)
    x = x[:, spread > 0] / spread[spread > 0]
    n, d = x.shape
    if d < 2:
        return np.asarray(x @ (x.T @ contrasts))
    shrunk = float(ledoit_wolf_shrinkage(x, assume_centered=True))
    if d <= n:
        covariance = (1.0 - shrunk) * (x.T @ x) / n + shrunk * np.eye(d)
        return np.asarray(x @ np.linalg.solve(covariance, x.T @ contrasts))
    # (s I + k X'X / n)^-1 = (I - X' (s n / k I + X X')^-1 X) / s, with a matrix of n by n
    gram = x @ x.T
    ridge = max(shrunk, 1e-9) * n / max(1.0 - shrunk, 1e-9)
    along = gram @ contrasts
    return np.asarray(along - gram @ np.linalg.solve(gram + ridge * np.eye(n), along))


def contrast(n: int, chosen: NDArray[np.intp], labels: NDArray[np.bool_]) -> Matrix:
    """Weights (n,) by which the difference of the means of rows is a sum.

    Rows ``chosen`` (k,) are of the first kind where ``labels`` (k,) is true. All 0 if there is one
    kind only.
    """
    weights = np.zeros(n)
    if labels.any() and not labels.all():
        weights[chosen] = np.where(labels, 1 / labels.sum(), -1 / (~labels).sum())
    return weights
