"""How well scores rank the members of each class above all others."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def auc_of_classes(codes: NDArray[np.int64], scores: NDArray[np.float64]) -> float:
    """Mean over classes of the area under each one's ROC against all others; 1/2 without any.

    ``codes`` (n,) and ``scores`` (n, C), larger for likelier classes; classes that none or all
    have do not count.
    """
    from scipy.stats import rankdata

    members = codes[:, None] == np.arange(scores.shape[1])
    held = members.sum(axis=0)
    some = (held > 0) & (held < len(codes))
    if not some.any():
        return 0.5
    members, held = members[:, some], held[some]
    beaten = (rankdata(scores[:, some], axis=0) * members).sum(axis=0) - held * (held + 1) / 2
    return float(np.mean(beaten / (held * (len(codes) - held))))


def placements(
    codes: NDArray[np.int64], scores: NDArray[np.float64]
) -> list[tuple[float, NDArray[np.float64]]]:
    """Of each class that some but not all have: its area, and each row's influence on it (n,).

    The sum of the squared influences is the variance of the area (DeLong, DeLong and
    Clarke-Pearson 1988, from each row's share of the other kind that it outranks).
    """
    from scipy.stats import rankdata

    classes, n = [], len(codes)
    for code in range(scores.shape[1]):
        members = codes == code
        k = int(np.count_nonzero(members))
        if not 0 < k < n:
            continue
        ranks = rankdata(scores[:, code])
        within = np.empty(n)
        within[members] = rankdata(scores[members, code])
        within[~members] = rankdata(scores[~members, code])
        beaten = ranks - within  # of the other kind, ties by half
        area = float(beaten[members].sum()) / (k * (n - k))
        share = np.where(members, beaten / (n - k), 1 - beaten / k)
        classes.append((area, (share - area) / np.where(members, k, n - k)))
    return classes
