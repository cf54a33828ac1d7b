"""Leave-last-out evaluation: HR@K and NDCG@K of one held-out interaction per user.

- Held-out item: the item of the user's latest interaction. Users with one interaction are not
  tested.
- Training: on all other interactions.
- Ranking: among all items without an interaction of the user, and among a sample of 99 of these.
- Ties: metrics are expectations over a random order of items with equal scores.
- Baseline: the same items are ranked by popularity in the training data.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.utility import held_out
from fedrec_auditor.auditor.utility.baselines import count_users_per_item
from fedrec_auditor.reports.record.rows import UtilityRow
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.systems.base import Model, Target

# Number of sampled items among which the held-out item is ranked.
N_SAMPLED_NEGATIVES = 99
# Names of the two rankings in reports.
SAMPLED_ITEMS, ALL_ITEMS = "99 sampled negatives", "all items"
# Note of a row if the held-out items of all users are drawn at random.
NO_TIMES_NOTE = "This audit holds out a random item per user, because the data have no times."
# Note of a row if this is done for users with several latest items; {}: number of these users.
TIES_NOTE = "This audit holds out one of several items of the latest time, at random, for {} users."


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOutItems(held_out.HeldOutData):
    """Training data and one held-out item per user.

    - ``items``: index of the held-out item of each user, (n_users,); -1 for users without one.
    - ``n_tied_users``: number of users with several items at their latest time, from which the
      held-out item was drawn at random.
    """

    items: NDArray[np.int64]
    n_tied_users: int

    def evaluate(
        self, target: Target, model: Model, *, confidence: float, rng: np.random.Generator
    ) -> tuple[UtilityRow, ...]:
        """Computes HR@K and NDCG@K of the held-out items, ranked among 99 sampled items and among
        all items, with normal confidence intervals over users.

        The result has one row per metric, K and kind of ranking. ``rng`` draws the sampled items,
        and the tested users if there are many.
        """
        tested, drawing = held_out.draw_tested_users(np.flatnonzero(self.items >= 0), rng)
        untimed = "" if self.training_data.timestamps is not None else NO_TIMES_NOTE
        ties = TIES_NOTE.format(f"{self.n_tied_users:,}") if self.n_tied_users else ""
        note = " ".join(filter(None, (untimed, ties, drawing)))
        ranks: list[NDArray[np.int64]] = []
        popular = count_users_per_item(self.training_data)
        n_items, sizes = self.training_data.n_items, np.diff(self.training_data.ratings.indptr)
        width = min(N_SAMPLED_NEGATIVES, n_items - 1)
        for users in held_out.iter_user_blocks(tested, n_items):
            known = self.training_data.ratings[users].toarray() != 0
            scores = held_out.score_items_by_user(target, model, self.training_data, users)
            item = self.items[users]
            known[np.arange(len(users)), item] = True
            # The smallest random keys select 99 items without interaction, without replacement.
            keys = np.where(known, np.inf, rng.random(scores.shape))
            few = np.argpartition(keys, width - 1, axis=1)[:, :width].copy()
            del keys
            both = (scores, np.broadcast_to(popular, scores.shape))
            ranks.append(np.stack([_count_rivals(each, item, known, few) for each in both], axis=1))
        places = np.concatenate(ranks, axis=-1)
        unmet = n_items - sizes[tested]  # the held-out item included
        choices = {SAMPLED_ITEMS: np.minimum(width + 1, unmet), ALL_ITEMS: unmet}
        rows: list[UtilityRow] = []
        for (protocol, among), (own, popular) in zip(choices.items(), places, strict=True):
            rows += held_out.iter_ranking_rows(
                target, protocol, own, popular, among - 1, confidence=confidence, note=note
            )
        return tuple(rows)


def _count_rivals(
    scores: NDArray[np.float64],
    item: NDArray[np.int64],
    known: NDArray[np.bool_],
    few: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Counts of items with a higher score than each user's ``item``, and with an equal score, (2,
    2, n).

    - First axis: comparison with the sampled items ``few``, then with all items without an
      interaction.
    - Second axis: items with a higher score, then with an equal score.
    - ``known``: true for items with an interaction, (n, n_items).
    """
    truth = np.take_along_axis(scores, item[:, None], axis=1)
    others = np.where(known, -np.inf, scores)
    rivals = (np.take_along_axis(others, few, axis=1), others)
    return np.stack([[(each > truth).sum(1), (each == truth).sum(1)] for each in rivals])


def hold_out(interactions: Interactions, rng: np.random.Generator) -> HeldOutItems:
    """Holds out the latest interaction of every user with at least two interactions, and keeps all
    other interactions for training.

    One of several latest interactions, or one of all if there are no timestamps, is drawn at
    random. Raises InputError if no user has two interactions.
    """
    # Item indices often follow popularity, so that a choice by item index would make the held-out
    # item easier or harder to guess.
    ratings = interactions.ratings
    counts = np.diff(ratings.indptr)
    chosen = counts >= 2
    if not chosen.any():
        raise InputError(
            "Expected a user with two interactions, got none. Give more interactions per user."
        )
    times = interactions.timestamps
    rows = np.repeat(np.arange(ratings.shape[0]), counts)
    drawn_order = rng.random(ratings.nnz)
    order = np.lexsort((drawn_order, rows) if times is None else (drawn_order, times, rows))
    ends = ratings.indptr[1:][chosen]
    last = order[ends - 1]
    tied = 0 if times is None else int(np.count_nonzero(times[last] == times[order[ends - 2]]))
    items = np.full(ratings.shape[0], -1, dtype=np.int64)
    items[chosen] = ratings.indices[last]
    keep = np.ones(ratings.nnz, dtype=bool)
    keep[last] = False
    rest = interactions.keep_ratings(keep)
    return HeldOutItems(training_data=rest, items=items, n_tied_users=tied)
