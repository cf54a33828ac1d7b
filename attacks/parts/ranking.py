"""How well scores rank the members of each class above all others."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def auc_of_classes(codes: NDArray[np.int64], scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean over classes of the area under each one's ROC against all others; 1/2 without any.

    ``codes`` (n,) and ``scores`` (n, ..., C), larger for likelier classes; classes that none or all
    have do not count. Of shape (...).
    """
    from scipy.stats import rankdata

    n, classes = len(codes), np.arange(scores.shape[-1])
    members = codes[:, None] == classes
    k = members.sum(axis=0)
    told = (k > 0) & (k < n)
    if not told.any():
        return np.full(scores.shape[1:-1], 0.5)
    sums = np.einsum("n...c,nc->...c", rankdata(scores[..., told], axis=0), members[:, told])
    k = k[told]
    return np.asarray(((sums - k * (k + 1) / 2) / (k * (n - k))).mean(axis=-1))


def placements(
    codes: NDArray[np.int64], scores: NDArray[np.float64]
) -> list[tuple[float, NDArray[np.float64]]]:
    """Of each class that some but not all have: its area, and each row's influence on it (n,).

    The sum of the squared influences is the variance of the area (DeLong, DeLong and
    Clarke-Pearson 1988, from each row's share of the other kind that it outranks), without bias. A
    single member or non-member says nothing of how its kind varies: it counts as far from the mean
    as the area leaves room for, sqrt(area (1 - area)).
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
        sizes = np.where(members, k, n - k)
        off = (share - area) * np.sqrt(sizes / np.maximum(sizes - 1, 1))
        off = np.where(sizes == 1, np.sqrt(area * (1 - area)), off)
        classes.append((area, off / sizes))
    return classes
