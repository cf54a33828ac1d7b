"""Leave-last-out: HR@K and NDCG@K of one held-out interaction a user.

One interaction of every user is held out (the latest; without timestamps a random one), the
target is trained on the rest, and the held-out item is ranked among 99 sampled items that the
user has not met, or among all of them. Ties are ranked by expectation, so that a model that says
nothing scores like a random one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.auditor.utility.held import Held, blocks, drawn, ranked, scored
from fedrec_auditor.reports.rows import UtilityRow
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.systems.base import Model, Target

NEGATIVES = 99
SAMPLED, ALL = "99 sampled negatives", "all items"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldItems(Held):
    """One held-out item a user: ``items`` (n_users,), -1 where none is."""

    items: NDArray[np.int64]

    def evaluate(
        self, target: Target, model: Model, *, confidence: float, rng: np.random.Generator
    ) -> tuple[UtilityRow, ...]:
        """HR@K and NDCG@K under both protocols, with normal intervals over users."""
        tested, note = drawn(np.flatnonzero(self.items >= 0), rng)
        ranks: dict[str, list[NDArray[np.int64]]] = {SAMPLED: [], ALL: []}
        n_items = self.train.n_items
        width = min(NEGATIVES, n_items - 1)
        for users in blocks(tested, n_items):
            known = self.train.ratings[users].toarray() != 0
            scores = scored(target, model, self.train, users)
            item = self.items[users]
            truth = np.take_along_axis(scores, item[:, None], axis=1)
            known[np.arange(len(users)), item] = True
            scores[known] = -np.inf
            # 99 of the items the user has not met, without replacement: the smallest random keys
            keys = np.where(known, np.inf, rng.random(scores.shape))
            few = np.argpartition(keys, width - 1, axis=1)[:, :width]
            negatives = np.take_along_axis(scores, few, axis=1)
            for protocol, rivals in ((ALL, scores), (SAMPLED, negatives)):
                counts = [(rivals > truth).sum(1), (rivals == truth).sum(1)]
                ranks[protocol].append(np.stack(counts))
        unmet = n_items - np.diff(self.train.ratings.indptr)[tested]  # the held-out item included
        choices = {SAMPLED: np.minimum(width + 1, unmet), ALL: unmet}
        rows: list[UtilityRow] = []
        for protocol, found in ranks.items():
            above, tied = np.concatenate(found, axis=1)
            others = choices[protocol] - 1
            rows += ranked(target, protocol, above, tied, others, confidence=confidence, note=note)
        return tuple(rows)


def hold_out(interactions: Interactions, rng: np.random.Generator) -> HeldItems:
    """Hold out the latest interaction of every user with at least two.

    Equal timestamps are broken by the larger item number; without timestamps a random interaction
    is held out.
    """
    ratings = interactions.ratings
    counts = np.diff(ratings.indptr)
    if not (counts >= 2).any():
        raise InputError(
            "Expected at least one user with two interactions, got none. Give more data."
        )
    times = interactions.timestamps
    key = rng.random(ratings.nnz) if times is None else times.astype(np.float64)
    rows = np.repeat(np.arange(ratings.shape[0]), counts)
    last = np.lexsort((ratings.indices, key, rows))[ratings.indptr[1:] - 1]
    chosen = counts >= 2
    items = np.full(ratings.shape[0], -1, dtype=np.int64)
    items[chosen] = ratings.indices[last[chosen]]
    keep = np.ones(ratings.nnz, dtype=bool)
    keep[last[chosen]] = False
    return HeldItems(train=interactions.keep(keep), items=items)
