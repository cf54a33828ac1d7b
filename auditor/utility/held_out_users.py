"""Held-out users: HR@K and NDCG@K on devices that the training has never seen.

A fifth of the users is held out with all they have, and the target is trained on the others. Then
each held-out user's interactions are split in half: the device fine-tunes on one half (within
``score``), and each interaction of the other half is ranked among all items that the user has
never met. HR@K is the share of a user's tested interactions that are among the first K, NDCG@K
their mean gain 1/log2(1 + place); both are averaged over users. Ties are ranked by expectation, so
that a model that says nothing scores like a random one. Popularity among the users of the training
ranks the same items.

Source: Wang et al. 2021 (PrivRec), section 3.3, equations 10 and 11. Equation 11 has neither a
mean over tested interactions nor a normaliser: with one relevant item a list, the normaliser is 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.utility.baselines import popularity
from fedrec_auditor.auditor.utility.held import Held, drawn, ranked, scored
from fedrec_auditor.reports.record.rows import UtilityRow
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.systems.base import Model, Target

PROTOCOL = "held-out users"
SHARE = 0.2
_CHUNK = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldUsers(Held):
    """Held-out users: what their devices fine-tune on, and what is tested, aligned row by row."""

    tune: Interactions
    test: Interactions

    def evaluate(
        self, target: Target, model: Model, *, confidence: float, rng: np.random.Generator
    ) -> tuple[UtilityRow, ...]:
        """HR@K and NDCG@K with normal intervals over users."""
        table = self.test.ratings
        asked, note = drawn(np.arange(self.test.n_users), rng)
        sizes = np.diff(table.indptr)[asked]
        popular = popularity(self.train)
        places = []
        for start in range(0, len(sizes), _CHUNK):
            users = asked[start : start + _CHUNK]
            scores = scored(target, model, self.tune, users)
            tested = table[users].toarray() != 0
            unmet = ~tested & (self.tune.ratings[users].toarray() == 0)
            both = (scores, np.broadcast_to(popular, scores.shape))
            places.append(np.stack([places_among(each, tested, unmet) for each in both]))
        ours, theirs = np.concatenate(places, axis=-1)
        user = np.repeat(np.arange(len(sizes)), sizes)
        some = sizes > 0

        def mean(values: NDArray[np.float64]) -> NDArray[np.float64]:
            return np.bincount(user, weights=values, minlength=len(sizes))[some] / sizes[some]

        rows = ranked(
            target,
            PROTOCOL,
            ours[:2],
            theirs[:2],
            ours[2],
            confidence=confidence,
            per_user=mean,
            note=note,
        )
        return tuple(rows)


def hold_out(interactions: Interactions, rng: np.random.Generator) -> HeldUsers:
    """Hold out a random fifth of the users, and half of the interactions of each.

    Users with an odd number fine-tune on the larger half; one with a single interaction is tested
    on none. InputError unless users remain to be trained on and some to be tested.
    """
    users = rng.permutation(interactions.n_users)
    count = max(1, round(SHARE * interactions.n_users))
    held = interactions.take(np.sort(users[:count]))
    sizes = np.diff(held.ratings.indptr)
    if count == interactions.n_users or not (sizes >= 2).any():
        raise InputError(
            f"Expected users to train on and held-out users with two interactions, got "
            f"{interactions.n_users} users. Give more data."
        )
    owner = np.repeat(np.arange(count), sizes)
    order = np.lexsort((rng.random(len(owner)), owner))
    place = np.empty(len(owner), dtype=np.int64)
    place[order] = np.arange(len(owner)) - held.ratings.indptr[owner]
    tested = place < (sizes // 2)[owner]
    return HeldUsers(
        train=interactions.take(np.sort(users[count:])),
        tune=held.keep(~tested),
        test=held.keep(tested),
    )


def places_among(
    scores: NDArray[np.float64], tested: NDArray[np.bool_], unmet: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """For each tested item, row by row: unmet items of higher score, of equal score, and in all.

    All arguments are (n, n_items); the result is (3, number tested). One sort a row.
    """
    found = []
    for row, mine, others in zip(scores, tested, unmet, strict=True):
        rivals = np.sort(row[others])
        below, until = (np.searchsorted(rivals, row[mine], side) for side in ("left", "right"))
        total = np.full(len(below), len(rivals))
        found.append(np.stack([total - until, until - below, total]))
    return np.concatenate(found, axis=1)
