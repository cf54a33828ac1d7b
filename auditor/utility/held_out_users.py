"""Evaluation on held-out users: HR@K and NDCG@K on devices that did not take part in the training.

A fifth of the users is held out, and the system is trained on the remaining users. The device of a
held-out user fine-tunes on half of the user's interactions. Each interaction of the other half is
ranked among all items without an interaction of the user.

- HR@K: fraction of a user's tested interactions among the first K items, averaged over users.
- NDCG@K: mean over these interactions of the gain 1/log2(1 + rank), 0 for a rank above K, averaged
  over users.
- Ties: metrics are expectations over a random order of items with equal scores.
- Baseline: the same items are ranked by popularity among the training users.

Source: Wang et al. 2021 (PrivRec), section 3.3, equations 10 and 11. Unlike equation 11, NDCG@K
here is a mean over tested interactions. Its normalization is 1, because a list has one relevant
item.
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

# Name of the protocol in reports.
PROTOCOL = "held-out users"
# Share of the users that is held out.
HELD_OUT_SHARE = 0.2
_CHUNK = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOutUsers(held_out.HeldOutData):
    """Training data, and the data of held-out users, split in two.

    - ``tuning_data``: interactions on which a held-out user's device fine-tunes the model, one row
      per held-out user.
    - ``test_data``: interactions of these users that are tested, with the same rows.
    """

    tuning_data: Interactions
    test_data: Interactions

    def evaluate(
        self, target: Target, model: Model, *, confidence: float, rng: np.random.Generator
    ) -> tuple[UtilityRow, ...]:
        """Computes HR@K and NDCG@K on the held-out users' test interactions, one row per metric and
        K, with normal confidence intervals over users.

        ``rng`` draws the tested users if there are many.
        """
        table = self.test_data.ratings
        chosen, note = held_out.draw_tested_users(np.arange(self.test_data.n_users), rng)
        sizes = np.diff(table.indptr)[chosen]
        popular = count_users_per_item(self.training_data)
        places = []
        for start in range(0, len(sizes), _CHUNK):
            users = chosen[start : start + _CHUNK]
            scores = held_out.score_items_by_user(target, model, self.tuning_data, users)
            tested = table[users].toarray() != 0
            no_interaction = ~tested & (self.tuning_data.ratings[users].toarray() == 0)
            both = (scores, np.broadcast_to(popular, scores.shape))
            places.append(np.stack([count_rivals(each, tested, no_interaction) for each in both]))
        by_target, by_popularity = np.concatenate(places, axis=-1)
        user = np.repeat(np.arange(len(sizes)), sizes)
        some = sizes > 0

        def average_per_user(values: NDArray[np.float64]) -> NDArray[np.float64]:
            """Returns the mean of ``values`` (one per tested item) for each user who has any."""
            return np.bincount(user, weights=values, minlength=len(sizes))[some] / sizes[some]

        rows = held_out.iter_ranking_rows(
            target,
            PROTOCOL,
            by_target[:2],
            by_popularity[:2],
            by_target[2],
            confidence=confidence,
            average_per_user=average_per_user,
            note=note,
        )
        return tuple(rows)


def hold_out(interactions: Interactions, rng: np.random.Generator) -> HeldOutUsers:
    """Splits the users: a random fifth is held out, and the other users are for training.

    Half of the interactions of each held-out user, drawn at random and rounded down, are for the
    test. The other half is for fine-tuning the model on the user's device.

    Raises InputError unless there are users to train on and users to test.
    """
    users = rng.permutation(interactions.n_users)
    count = max(1, round(HELD_OUT_SHARE * interactions.n_users))
    held_out_data = interactions.take_users(np.sort(users[:count]))
    sizes = np.diff(held_out_data.ratings.indptr)
    if count == interactions.n_users or not (sizes >= 2).any():
        raise InputError(
            f"Expected training users and a held-out user with 2 interactions, got {count} of "
            f"{interactions.n_users} users held out. Give more users and interactions per user."
        )
    owner = np.repeat(np.arange(count), sizes)
    order = np.lexsort((rng.random(len(owner)), owner))
    place = np.empty(len(owner), dtype=np.int64)
    place[order] = np.arange(len(owner)) - held_out_data.ratings.indptr[owner]
    # A user with a single interaction is not tested.
    tested = place < (sizes // 2)[owner]
    return HeldOutUsers(
        training_data=interactions.take_users(np.sort(users[count:])),
        tuning_data=held_out_data.keep_ratings(~tested),
        test_data=held_out_data.keep_ratings(tested),
    )


def count_rivals(
    scores: NDArray[np.float64], tested: NDArray[np.bool_], no_interaction: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """Counts the rivals of each tested item: the items without an interaction of the user.

    - ``scores``: scores of all items, one row per user, (n, n_items).
    - ``tested``: true for tested items of the user, (n, n_items).
    - ``no_interaction``: true for items without any interaction of the user, (n, n_items).

    The result has shape (3, number of tested items). Its rows are the numbers of rivals with a
    higher score, with an equal score, and in total.
    """
    counts = []
    for row, items, others in zip(scores, tested, no_interaction, strict=True):
        rivals = np.sort(row[others])
        below, until = (np.searchsorted(rivals, row[items], side) for side in ("left", "right"))
        total = np.full(len(below), len(rivals))
        counts.append(np.stack([total - until, until - below, total]))
    return np.concatenate(counts, axis=1)
