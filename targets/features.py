"""User features: numbers that a device computes from its user's ratings and attributes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.datasets.base import AGE_GROUPS, Attribute, Interactions, classify_age

# Number of levels into which ratings are rounded, and number of features that describe ratings.
N_RATING_LEVELS = 5
N_RATING_FEATURES = 18
# User attributes that are features, in the order of their columns.
ATTRIBUTES_AS_FEATURES = ("gender", "occupation", "age_group")


@dataclass(frozen=True, slots=True, kw_only=True)
class UserFeatures:
    """Features of all users: numbers that a device computes from its own user's data.

    values: the features, float32 (n_users, F)
    names: names of the F features
    """

    values: NDArray[np.float32]
    names: tuple[str, ...]


def compute_user_features(interactions: Interactions, *, best: float = 5.0) -> UserFeatures:
    """Computes the user features in Table I of the FedRec paper, for each user of the data.

    best: the best rating of the scale, which is public

    Notation: n is a number of ratings. The level of a rating r is 5 r/best, rounded up and clipped
    to [1, 5]. The columns are, in this order:

    - log(1 + n) for all ratings of the user
    - log(1 + n) for the ratings of each level, 1 to 5
    - the share of each level among the user's ratings
    - the shares of low (1, 2) and high (4, 5) levels
    - the entropy of the shares of the levels, divided by log 5
    - median, minimum, maximum and mean rating, divided by ``best``
    - one-hot gender, occupation and age group, if the data have these attributes

    A user without ratings has zeros except for the attributes. Ages in years are put into the
    table's three groups. Occupations have one column per category in the data.

    Raises InputError if ``best`` is not positive and finite. Source: Table I and section 3.1 of the
    FedRec paper (Zhang, Yuan and Yin).
    """
    if not 0 < best < np.inf:
        raise InputError(f"Expected finite best > 0, got {best=}. Give the best possible rating.")
    table, n_users = interactions.ratings, interactions.n_users
    sizes = np.diff(table.indptr)
    row = np.repeat(np.arange(n_users), sizes)
    stars = table.data.astype(np.float64) / best

    # The paper does not state how features are scaled. No feature is standardised over users,
    # because a device cannot see other users' data. All features except the counts lie in [0, 1]
    # for ratings in (0, best]. Memory: about 60 bytes per rating in addition to the result.
    level = np.ceil(table.data * N_RATING_LEVELS / best)
    level = np.clip(level, 1, N_RATING_LEVELS).astype(np.int64)
    counts = np.bincount(row * N_RATING_LEVELS + level - 1, minlength=n_users * N_RATING_LEVELS)
    counts = counts.reshape(n_users, N_RATING_LEVELS)
    shares = counts / np.maximum(sizes, 1)[:, None]
    logs = np.log(np.where(counts > 0, shares, 1.0))
    entropy = -(shares * logs).sum(axis=1) / np.log(N_RATING_LEVELS)

    rated = np.flatnonzero(sizes)
    ordered = stars[np.lexsort((stars, row))]
    first, size = table.indptr[rated], sizes[rated]
    summary = np.zeros((n_users, 4))
    summary[rated] = np.column_stack(
        [
            (ordered[first + (size - 1) // 2] + ordered[first + size // 2]) / 2,
            ordered[first],
            ordered[first + size - 1],
            np.bincount(row, weights=stars, minlength=n_users)[rated] / size,
        ]
    )
    columns = [
        np.log1p(sizes)[:, None],
        np.log1p(counts),
        shares,
        shares[:, :2].sum(axis=1, keepdims=True),
        shares[:, 3:].sum(axis=1, keepdims=True),
        entropy[:, None],
        summary,
    ]
    levels = range(1, N_RATING_LEVELS + 1)
    names = [
        "ratings",
        *(f"number of level {level}" for level in levels),
        *(f"share of level {level}" for level in levels),
        *("share low", "share high", "entropy", "median", "least", "largest", "mean"),
    ]
    known = _add_age_group(interactions)
    for key in ATTRIBUTES_AS_FEATURES:
        if key in known:
            columns.append(known[key].codes[:, None] == np.arange(len(known[key].categories)))
            names += [f"{key} {category}" for category in known[key].categories]
    return UserFeatures(values=np.hstack(columns).astype(np.float32), names=tuple(names))


def count_user_features(interactions: Interactions) -> int:
    """Counts the columns of ``compute_user_features`` for these data, without computing them.

    There are 18 columns for the ratings, and one per category of gender, occupation and age group.
    """
    known = _add_age_group(interactions)
    counts = (len(known[key].categories) for key in ATTRIBUTES_AS_FEATURES if key in known)
    return N_RATING_FEATURES + sum(counts)


def _add_age_group(interactions: Interactions) -> dict[str, Attribute]:
    """Returns the users' attributes by name, with "age_group" derived from "age" if it is missing.

    Ages in years are put into the groups ``AGE_GROUPS``. Other categories of "age" are used as the
    groups.
    """
    known = dict(interactions.attributes)
    if "age_group" in known or "age" not in known:
        return known
    years = known["age"].categories
    if not all(year.isdecimal() for year in years):
        return {**known, "age_group": known["age"]}
    group = np.array([classify_age(int(year)) for year in years], dtype=np.int64)
    known["age_group"] = Attribute(codes=group[known["age"].codes], categories=AGE_GROUPS)
    return known
