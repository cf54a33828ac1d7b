"""Filter of data sets: keeps high ratings, and users and items with enough interactions."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.settings import Checked, NotNegative, WholeOrZero


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter(Checked):
    """Keeps ratings of at least ``min_rating``, then users and items with enough interactions.

    The result is the largest part of the data whose users have at least ``min_user`` interactions
    and whose items have at least ``min_item``. For example, PrivRec counts ratings above 3 as
    interactions (section 3.1), so its ``min_rating`` is 4.

    Dropping a user removes interactions of items, and vice versa, so one pass over users and items
    leaves some of them below the limit. The papers that retain "users and items with at least 60
    interactions" (DPLCF, section 4.1.1; FMF-LDP, section 4) do not state the number of passes. This
    class repeats the passes until nothing changes, because only then does the result have the
    stated property. The result does not depend on the order of dropping. A limit of 0 keeps all
    users or items, even those without an interaction. A limit of 1 drops those.

    Identifiers, attributes, timestamps, genres and titles of the remaining users and items do not
    change. Memory: about 17 bytes per interaction in addition to the result. Time: one scan of the
    remaining interactions per pass, rarely more than ten passes.
    """

    min_user: WholeOrZero = 0
    min_item: WholeOrZero = 0
    min_rating: NotNegative = 0.0

    def __call__(self, interactions: Interactions) -> Interactions:
        """Returns the interactions that pass the filter.

        Raises InputError if no interaction passes.
        """
        if self.min_rating > 0:
            interactions = interactions.keep_where(interactions.ratings.data >= self.min_rating)
            if not interactions.ratings.nnz:
                raise InputError(
                    f"Expected ratings of at least {self.min_rating:g} in {interactions.name}, got "
                    "none. Lower min_rating."
                )
        if self.min_user == self.min_item == 0:
            return interactions
        sizes = np.diff(interactions.ratings.indptr)
        row = np.repeat(np.arange(interactions.n_users, dtype=np.int32), sizes)
        column = interactions.ratings.indices
        users = np.ones(interactions.n_users, dtype=bool)
        items = np.ones(interactions.n_items, dtype=bool)
        while True:
            enough_users = np.bincount(row, minlength=len(users)) >= self.min_user
            enough_items = np.bincount(column, minlength=len(items)) >= self.min_item
            users, items = users & enough_users, items & enough_items
            stays = users[row] & items[column]
            if stays.all():
                break
            row, column = row[stays], column[stays]
        if not column.size:
            raise InputError(
                f"Expected users with {self.min_user} or more interactions and items with "
                f"{self.min_item} or more in {interactions.name}, got none. Lower the filter."
            )
        return _part(interactions, np.flatnonzero(users), items)


def _part(
    interactions: Interactions, users: NDArray[np.int64], items: NDArray[np.bool_]
) -> Interactions:
    """Returns the interactions of the rows ``users`` (indices) and the columns ``items``
    (flags).
    """
    rows = interactions.take_users(users)
    rows = rows.keep_where(items[rows.ratings.indices])
    place = np.cumsum(items) - 1
    ratings = rows.ratings
    return replace(
        rows,
        items=rows.items[items],
        ratings=sparse.csr_array(
            (ratings.data, place[ratings.indices].astype(ratings.indices.dtype), ratings.indptr),
            shape=(rows.n_users, int(items.sum())),
        ),
        genres=None if rows.genres is None else rows.genres[items],
        titles=tuple(rows.titles[at] for at in np.flatnonzero(items)) if rows.titles else (),
    )
