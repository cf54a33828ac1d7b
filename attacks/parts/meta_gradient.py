"""Own items among the rows that a gradient through local steps moves (second-order MAML).

A device takes steps on one half of its examples, the support set, and sends the gradient of the
other half's loss, the query set, by the weights that it began with. A row of the query set moves
along dz/dv by the size of its error, own items and negatives in opposite directions (see
``item_rows``). A row of the support set moves by the mixed second derivative only, which has a part
along dz/dv that does not depend on the label, and one beside it that turns with the label. So the
moved rows form four groups in the plane of these two directions, told apart by direction and by
size: two halves, each of own items and of q negatives for each. A gradient of first order has the
two groups of the query set alone.

Groups are fitted to direction (a unit vector in the plane) and log norm of each row, as a mixture
of normal distributions with diagonal covariance, of two or of four components, whichever has the
better Bayesian information criterion (Schwarz 1978). Own items are the smaller half of the groups.
Source: derived here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_STEPS = 20
_STARTS = ((2, (0.0,)), (4, (0.0, 0.5)))  # number of groups; rank by size of the first centre
_REACH = 0.05  # the next centre is nearly the farthest row: this share is farther
_LEAST = 1e-3  # variance of a group

Doubles = NDArray[np.float64]


def own_probability(change: NDArray[np.floating[Any]]) -> Doubles:
    """Probability that each moved row is of an own item, 0 for the others: (n, M, d) -> (n, M).

    Reliable where there are several negatives to an own item. Cost: 60 passes over the moved rows.
    """
    sizes = np.linalg.norm(change, axis=2)
    width = int(np.count_nonzero(sizes, axis=1).max(initial=0))
    probability = np.zeros(sizes.shape)
    if not width:
        return probability
    # the moved rows of each sender first, by size
    order = np.argsort(-sizes, axis=1, kind="stable")[:, :width]
    sizes = np.take_along_axis(sizes, order, axis=1)
    kept = sizes > 0
    points = _points(np.take_along_axis(change, order[:, :, None], axis=1), sizes, kept)
    count = np.maximum(kept.sum(axis=1), 1)
    least, best = np.full(len(change), np.inf), np.zeros(sizes.shape)
    for groups, ranks in _STARTS:
        for rank in ranks:
            near = _nearest(points, kept, (rank * (count - 1)).astype(int), groups)
            member, weight, fit = _mixture(points, kept, near, groups)
            criterion = (7 * groups - 1) * np.log(count) - 2 * fit
            smaller = np.argsort(weight, axis=1)[:, None, : groups // 2]
            own = np.take_along_axis(member, smaller, axis=2).sum(axis=2)
            better = criterion < least
            least = np.where(better, criterion, least)
            best = np.where(better[:, None], own, best)
    np.put_along_axis(probability, order, best, axis=1)
    return probability


def _points(rows: NDArray[Any], sizes: NDArray[Any], kept: NDArray[np.bool_]) -> Doubles:
    """Direction in the plane of most rows, and log norm: (n, m, 3), zero where nothing is kept."""
    unit = _divided(rows, sizes)
    plane = np.linalg.eigh(unit.transpose(0, 2, 1) @ unit)[1][:, :, -2:]
    inside = unit @ plane
    length = np.log(np.where(kept, sizes, 1.0))
    inside = _divided(inside, np.linalg.norm(inside, axis=2))
    return np.concatenate([inside, length[:, :, None]], axis=2).astype(np.float64)


def _divided(rows: NDArray[Any], sizes: NDArray[Any]) -> NDArray[Any]:
    out, some = np.zeros_like(rows), sizes[:, :, None] > 0
    return np.asarray(np.divide(rows, sizes[:, :, None], out=out, where=some))


def _nearest(
    points: Doubles, kept: NDArray[np.bool_], first: NDArray[np.intp], groups: int
) -> NDArray[np.intp]:
    """Which of ``groups`` centres each row is nearest to, (n, m); each is far from those before."""
    senders = np.arange(len(points))
    place = (kept.sum(axis=1) * _REACH).astype(int)
    distance = ((points - points[senders, first][:, None]) ** 2).sum(axis=2)
    near = np.zeros(kept.shape, dtype=np.intp)
    for group in range(1, groups):
        far = np.argsort(-np.where(kept, distance, -1.0), axis=1)[senders, place]
        other = ((points - points[senders, far][:, None]) ** 2).sum(axis=2)
        near[other < distance] = group
        distance = np.minimum(other, distance)
    return near


def _mixture(
    points: Doubles, kept: NDArray[np.bool_], near: NDArray[np.intp], groups: int
) -> tuple[Doubles, Doubles, Doubles]:
    """Memberships (n, m, groups), sizes of groups (n, groups), log-likelihoods (n,), by EM."""
    member = (near[:, :, None] == np.arange(groups)) * kept[:, :, None].astype(np.float64)
    count = np.maximum(kept.sum(axis=1), 1)
    square = points**2
    for _ in range(_STEPS):
        weight = member.sum(axis=1) + 1e-6
        back = member.transpose(0, 2, 1)
        mean = back @ points / weight[:, :, None]
        spread = np.maximum(back @ square / weight[:, :, None] - mean**2, 0) + _LEAST
        cross = square @ (1 / spread).transpose(0, 2, 1)
        cross -= 2 * points @ (mean / spread).transpose(0, 2, 1)
        level = (mean**2 / spread + np.log(2 * np.pi * spread)).sum(axis=2)
        log = np.log(weight / count[:, None])[:, None] - (cross + level[:, None]) / 2
        top = log.max(axis=2, keepdims=True)
        member = np.exp(log - top)
        total = member.sum(axis=2, keepdims=True)
        member *= kept[:, :, None] / total
    fit = np.where(kept, (np.log(total) + top)[:, :, 0], 0).sum(axis=1)
    return member, weight, fit
