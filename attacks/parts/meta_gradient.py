"""Recognition of positives' item rows in a gradient through local steps (second-order MAML).

Positives are the items with which the user interacted. A device also draws several negatives per
positive. Its examples form a support set and a query set. The device takes steps on the support
set, and sends the gradient of the query set's loss with respect to the initial weights.

The changed rows form four groups: positives and negatives, each of the query set and of the support
set. A first-order gradient has only the two groups of the query set. A mixture of normal
distributions, fitted to directions and lengths of the rows, separates the groups. Source: derived
here.
"""

# The groups of changed rows are:
# - positives of the query set: along dz/dv, the derivative of the score z by the row v, in
#   proportion to the error of the prediction (see ``item_rows``);
# - negatives of the query set: along -dz/dv, likewise;
# - positives of the support set: a part along dz/dv that does not depend on the label, plus a part
#   in a second direction (these rows change only by the mixed second derivative);
# - negatives of the support set: the same part along dz/dv, minus the part in the second direction.
# All rows lie in the plane of the two directions. The mixture is fitted to the direction (a unit
# vector in the plane) and the log norm of each row, with diagonal covariance. It has two or four
# components, whichever has the better Bayesian information criterion (Schwarz 1978). Rows of
# positives are those in the smaller one of two groups, or in the two smallest of four.

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.attacks.parts.uploads import divide_or_zero

_STEPS = 20
_STARTS = ((2, (0.0,)), (4, (0.0, 0.5)))  # number of groups; relative ranks of the first centre
_REACH = 0.05  # share of rows that are farther away than the next centre
_MIN_VARIANCE = 1e-3  # minimum variance of a group

Doubles = NDArray[np.float64]


def fit_positive_probs(changes: NDArray[np.floating[Any]]) -> Doubles:
    """Returns the probability (n, M) that an item's row changed because the item is a positive.

    changes: change of each item's row in the message of each of n devices (n, M, d)

    Positives are items with which the user interacted. The messages are gradients of devices that
    take local steps (MAML, see the start of the file). The probability of an unchanged row is 0.
    The result is reliable if a device draws several negatives per positive.
    """
    # Cost: 60 passes over the changed rows.
    sizes = np.linalg.norm(changes, axis=2)
    width = int(np.count_nonzero(sizes, axis=1).max(initial=0))
    probability = np.zeros(sizes.shape)
    if not width:
        return probability
    # Moved rows come first, in the order of their size.
    order = np.argsort(-sizes, axis=1, kind="stable")[:, :width]
    sizes = np.take_along_axis(sizes, order, axis=1)
    kept = sizes > 0
    points = _project_rows(np.take_along_axis(changes, order[:, :, None], axis=1), sizes, kept)
    count = np.maximum(kept.sum(axis=1), 1)
    best_criterion, best = np.full(len(changes), np.inf), np.zeros(sizes.shape)
    for groups, ranks in _STARTS:
        for rank in ranks:
            near = _assign_groups(points, kept, (rank * (count - 1)).astype(int), groups)
            member, weight, fit = _fit_mixture(points, kept, near, groups)
            criterion = (7 * groups - 1) * np.log(count) - 2 * fit
            smaller = np.argsort(weight, axis=1)[:, None, : groups // 2]
            own = np.take_along_axis(member, smaller, axis=2).sum(axis=2)
            better = criterion < best_criterion
            best_criterion = np.where(better, criterion, best_criterion)
            best = np.where(better[:, None], own, best)
    np.put_along_axis(probability, order, best, axis=1)
    return probability


def _project_rows(rows: NDArray[Any], sizes: NDArray[Any], kept: NDArray[np.bool_]) -> Doubles:
    """Returns each changed row's unit direction in a plane, and its log norm, (n, m, 3).

    The plane is that of the two principal directions of the unit rows of a message.
    """
    unit = divide_or_zero(rows, sizes[:, :, None])
    plane = np.linalg.eigh(unit.transpose(0, 2, 1) @ unit)[1][:, :, -2:]
    inside = unit @ plane
    length = np.log(np.where(kept, sizes, 1.0))
    inside = divide_or_zero(inside, np.linalg.norm(inside, axis=2, keepdims=True))
    return np.concatenate([inside, length[:, :, None]], axis=2).astype(np.float64)


def _assign_groups(
    points: Doubles, kept: NDArray[np.bool_], first: NDArray[np.intp], groups: int
) -> NDArray[np.intp]:
    """Assigns each point to the nearest of ``groups`` centres, which are far apart, (n, m)."""
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


def _fit_mixture(
    points: Doubles, moved: NDArray[np.bool_], near: NDArray[np.intp], groups: int
) -> tuple[Doubles, Doubles, Doubles]:
    """Fits a mixture of ``groups`` normal distributions to the points of each message.

    Returns the probability of each group for each point (n, m, groups), group sizes (n, groups),
    and log-likelihoods (n,). The method is expectation maximisation, which begins with the groups
    ``near`` (n, m).
    """
    member = (near[:, :, None] == np.arange(groups)) * moved[:, :, None].astype(np.float64)
    count = np.maximum(moved.sum(axis=1), 1)
    square = points**2
    for _ in range(_STEPS):
        weight = member.sum(axis=1) + 1e-6
        back = member.transpose(0, 2, 1)
        mean = back @ points / weight[:, :, None]
        spread = np.maximum(back @ square / weight[:, :, None] - mean**2, 0) + _MIN_VARIANCE
        cross = square @ (1 / spread).transpose(0, 2, 1)
        cross -= 2 * points @ (mean / spread).transpose(0, 2, 1)
        level = (mean**2 / spread + np.log(2 * np.pi * spread)).sum(axis=2)
        log = np.log(weight / count[:, None])[:, None] - (cross + level[:, None]) / 2
        top = log.max(axis=2, keepdims=True)
        member = np.exp(log - top)
        total = member.sum(axis=2, keepdims=True)
        member *= moved[:, :, None] / total
    fit = np.where(moved, (np.log(total) + top)[:, :, 0], 0).sum(axis=1)
    return member, weight, fit
