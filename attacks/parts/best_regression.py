"""Linear regression on few known rows: of one column, or of all, whichever foretells known ones.

Each is judged by its error on a known row when fitted to the others, which follows from one fit
(Allen, The relationship between variable selection and data augmentation, 1974). That none does so
better than the mean is no reason to say nothing: what is ranked may still be so rightly. A column
that ranks all known rows as they are, ties included, is taken as it is: by chance one in k! does.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import rankdata

Floats = NDArray[np.float64]

_FEW = 8  # known rows, whose order a column seldom has by chance
_PENALTIES = 10.0 ** np.arange(-2, 6)


def predicted(columns: Floats, known: NDArray[np.intp], values: Floats) -> Floats:
    """What the rows of ``columns`` (n, f) are, by the ``values`` (k,) of the ``known`` ones: (n,).

    All are read by their ranks, as normal scores: the more may be the more by any measure.
    """
    columns = columns[:, np.ptp(columns, axis=0) > 0]
    ranked = rankdata(columns[known], axis=0) == rankdata(values)[:, None]
    if len(known) >= _FEW and (right := ranked.all(axis=0)).any():
        return columns[:, int(np.argmax(right))]
    x, y = _scores(columns), _scores(values[:, None])[:, 0]
    y -= y.mean()
    mine = x[known] - x[known].mean(axis=0)
    square = (mine**2).sum(axis=0)
    told = square > 0
    slope = np.where(told, y @ mine / np.where(told, square, 1.0), 0.0)
    free = 1.0 - 1.0 / len(y) - mine**2 / np.where(told, square, 1.0)
    left = (((y[:, None] - mine * slope) / np.maximum(free, 1e-9)) ** 2).sum(axis=0)
    left = np.where(told, left, np.inf)
    best, weights = float(left.min(initial=np.inf)), np.zeros(x.shape[1])
    if np.isfinite(best):
        place = int(np.argmin(left))
        weights[place] = slope[place]
    rows, values_of, directions = np.linalg.svd(mine, full_matrices=False)
    along = rows.T @ y
    for penalty in _PENALTIES * len(y):
        kept = values_of**2 / (values_of**2 + penalty)
        free = 1.0 - 1.0 / len(y) - (rows**2) @ kept
        error = float((((y - rows @ (kept * along)) / np.maximum(free, 1e-9)) ** 2).sum())
        if error < best:
            shrunk = np.divide(kept, values_of, out=np.zeros_like(kept), where=values_of > 0)
            best, weights = error, directions.T @ (shrunk * along)
    return np.asarray(x @ weights)


def _scores(columns: Floats) -> Floats:
    """Normal quantiles of the ranks in each column of (n, f); ties have their mean rank."""
    return np.asarray(ndtri((rankdata(columns, axis=0) - 0.5) / len(columns)))
