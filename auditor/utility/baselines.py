"""Baselines of utility without federated training: item popularity, and rating means of users and
items.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.targets.datasets.base import Interactions

# Names of the baselines in reports: for rankings, and for predicted ratings.
POPULARITY, USER_ITEM_MEANS = "popularity", "user and item means"
_PASSES = 5


def count_users_per_item(train: Interactions) -> NDArray[np.float64]:
    """Returns the number of users who have each item in the training data, (n_items,).

    The baseline ``POPULARITY`` ranks items by this number, in the same order for every user.
    """
    return np.bincount(train.ratings.indices, minlength=train.n_items).astype(np.float64)


def predict_ratings(
    train: Interactions, users: NDArray[np.int64], items: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Predicts the ratings of n pairs of a user and an item, (n,): the overall mean plus damped
    deviations of item and user.

    ``train``: training data, to which the deviations are fitted.
    ``users``, ``items``: user index and item index of each pair, (n,).
    """
    table = train.ratings
    owners = np.repeat(np.arange(table.shape[0]), np.diff(table.indptr))
    rest = table.data.astype(np.float64)
    mean = rest.mean()
    rest -= mean
    of_users, of_items = np.zeros(train.n_users), np.zeros(train.n_items)
    # Each pass fits the deviations of items with those of users fixed, and then the deviations of
    # users.
    for _ in range(_PASSES):
        of_items = _shrink_means(rest - of_users[owners], table.indices, train.n_items)
        of_users = _shrink_means(rest - of_items[table.indices], owners, train.n_users)
    return np.asarray(mean + of_users[users] + of_items[items])


def _shrink_means(
    rest: NDArray[np.float64], groups: NDArray[np.integer], size: int
) -> NDArray[np.float64]:
    """Damped mean of each group, (size,): the mean times n / (n + k).

    n is the number of values of the group, and k is the variance within groups divided by the
    variance between groups. All means are 0 if the groups do not differ detectably.
    """
    # Both variances come from the analysis of variance with random effects (method of moments), so
    # that there is no parameter to tune.
    counts = np.bincount(groups, minlength=size)
    sums = np.bincount(groups, weights=rest, minlength=size)
    n_groups, n = int(np.count_nonzero(counts)), len(rest)
    raw = sums / np.maximum(counts, 1)
    within = float(np.square(rest - raw[groups]).sum()) / max(1, n - n_groups)
    spread = float(counts @ np.square(raw - rest.mean())) - (n_groups - 1) * within
    if n == n_groups or spread <= 0.0:
        return np.zeros(size)
    between = spread / (n - float(np.square(counts, dtype=np.float64).sum()) / n)
    return np.asarray(sums / (counts + within / between))
