"""Parties that own some items each, and how items are dealt to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.components import Floats, Ints
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.systems.federated_mf.parts.party_coins import PartyCoins

SPLITS = ("random", "category")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parties:
    """What all parties hold, stacked: s copies of the users, and the items party by party.

    ``ratings`` (s n, m) has party k's (trimmed) ratings in rows k n to (k + 1) n, over its own
    items, ``owned[k]`` to ``owned[k + 1]`` of ``order``, which are columns of the whole table.
    ``pace`` (s,) is one over the ratings of an average row of each, 1/(m_k tau).
    """

    ratings: sparse.csr_array
    order: Ints
    owned: Ints
    pace: Floats
    coins: PartyCoins

    @property
    def count(self) -> int:
        """s."""
        return len(self.pace)

    @property
    def weights(self) -> Floats:
        """m_k / m of each."""
        return np.diff(self.owned) / len(self.order)

    def by_user(self) -> Floats:
        """``pace`` of every stacked user, (s n, 1)."""
        return np.repeat(self.pace, self.coins.n_users)[:, None]

    def by_item(self, weighted: bool) -> Floats:
        """``pace`` of every item's party, (m, 1), times m_k / m (equation 4) if ``weighted``."""
        pace = self.pace * self.weights if weighted else self.pace
        return np.repeat(pace, np.diff(self.owned))[:, None]


def deal(
    interactions: Interactions, parties: int, split: str, rng: np.random.Generator
) -> Sequence[Ints]:
    """Columns of every party, ascending: at random in shares of one size, or by category.

    By category an item goes to that of its own which has the fewest items, or without one to the
    fewest of all (section 4.3). InputError for items without genres, or if the categories that
    have items are not as many as ``parties``.
    """
    if split == "random":
        count = min(parties, interactions.n_items)
        dealt = np.array_split(rng.permutation(interactions.n_items), count)
        return [np.sort(share) for share in dealt]
    genres = interactions.genres
    if genres is None:
        raise InputError(
            f"Expected items with genres to split by category, got none in "
            f'{interactions.name!r}. Ask for split="random".'
        )
    sizes = genres.sum(axis=0)
    chosen = np.where(genres, sizes, np.where(sizes > 0, len(genres) + sizes, np.inf))
    own = chosen.argmin(axis=1)
    shares = [np.flatnonzero(own == genre) for genre in np.unique(own)]
    if len(shares) != parties:
        raise InputError(
            f"Expected one party a category that has items, {len(shares)}, got "
            f"parties={parties!r}. Give parties={len(shares)}."
        )
    return shares
