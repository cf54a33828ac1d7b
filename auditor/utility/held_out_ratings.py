"""Evaluation on held-out ratings: the mean squared error of predicting a random tenth of all
ratings.

The trained system's scores serve as predicted ratings. There are two comparisons:

- Baseline: predictions from damped means of users and items of the training data.
- Error "of random scores" in reports: every prediction is the mean training rating.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.utility import held_out
from fedrec_auditor.auditor.utility.baselines import USER_ITEM_MEANS, predict_ratings
from fedrec_auditor.reports.record.rows import UtilityRow
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.systems.base import Model, NoScoresError, Target

# Share of the ratings that is held out.
HELD_OUT_SHARE = 0.1
# Name of the protocol in reports.
PROTOCOL = "held-out ratings"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOutRatings(held_out.HeldOutData):
    """Training data and held-out ratings, ordered by user.

    - ``users``, ``items``: user index and item index of each held-out rating, (n,).
    - ``ratings``: values of the held-out ratings, (n,).
    """

    users: NDArray[np.int64]
    items: NDArray[np.int64]
    ratings: NDArray[np.float64]

    def evaluate(
        self, target: Target, model: Model, *, confidence: float, rng: np.random.Generator
    ) -> tuple[UtilityRow, ...]:
        """Computes the mean squared error of the system's scores for the held-out ratings, as one
        row with a normal confidence interval over users.

        ``rng`` draws the tested users if there are many. Raises NoScoresError if all ratings are
        equal.
        """
        if np.ptp(np.append(self.ratings, self.training_data.ratings.data)) == 0:
            raise NoScoresError(
                f"All {len(self.ratings) + self.training_data.ratings.nnz:,} ratings are "
                f"{self.ratings[0]:g}, so a constant predicts them. Give different ones."
            )
        tested, note = held_out.draw_tested_users(np.unique(self.users), rng)
        drawn = np.isin(self.users, tested)
        owners, items, ratings = self.users[drawn], self.items[drawn], self.ratings[drawn]
        ends = np.append(np.searchsorted(owners, tested), len(owners))
        errors = np.empty(len(owners))
        start = 0
        for users in held_out.iter_user_blocks(tested, self.training_data.n_items):
            block = slice(ends[start], ends[start := start + len(users)])
            scores = held_out.score_items_by_user(target, model, self.training_data, users)
            rows = np.searchsorted(users, owners[block])
            errors[block] = ratings[block] - scores[rows, items[block]]
        mean = float(self.training_data.ratings.data.mean(dtype=np.float64))
        return (
            held_out.make_utility_row(
                target,
                "MSE",
                PROTOCOL,
                np.square(errors),
                np.square(ratings - predict_ratings(self.training_data, owners, items)),
                baseline=USER_ITEM_MEANS,
                random_value=float(np.square(ratings - mean).mean()),
                confidence=confidence,
                owners=np.searchsorted(tested, owners),
                max_value=math.inf,
                note=note,
            ),
        )


def hold_out(interactions: Interactions, rng: np.random.Generator) -> HeldOutRatings:
    """Holds out a random tenth of all ratings, at least two, and keeps at least one rating of each
    user for training.

    Raises InputError if fewer than two ratings can be held out.
    """
    table = interactions.ratings
    counts = np.diff(table.indptr)
    spare = int(table.nnz - np.count_nonzero(counts))
    if spare < 2:
        raise InputError(
            f"Expected 2 more ratings than users, got {spare} more. Give more ratings per user."
        )
    rows = np.repeat(np.arange(table.shape[0]), counts)
    order = np.lexsort((rng.random(table.nnz), rows))
    to_train = order[table.indptr[:-1][counts > 0]]
    free = np.setdiff1d(np.arange(table.nnz), to_train, assume_unique=True)
    size: int = min(spare, max(2, round(HELD_OUT_SHARE * table.nnz)))
    tested = np.sort(rng.choice(free, size=size, replace=False))
    keep = np.ones(table.nnz, dtype=bool)
    keep[tested] = False
    return HeldOutRatings(
        training_data=interactions.keep_ratings(keep),
        users=rows[tested],
        items=table.indices[tested].astype(np.int64),
        ratings=table.data[tested].astype(np.float64),
    )
