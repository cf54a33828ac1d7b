"""Who holds which ratings: parties with some items each (vertical), or some users (horizontal)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.components import Floats, Ints
from fedrec_auditor.targets.datasets.base import Interactions


@dataclass(frozen=True, slots=True)
class Items:
    """All users' ratings of some items: items dealt at random, or by category.

    At random in shares of one size; where a system's ``split`` is "category", an item goes to that
    of its own which has the fewest items, or without one to the fewest of all, one party a category
    that has any (section 4.3).
    """

    of_users: ClassVar[bool] = False

    def most(self, mf: Any, n_items: int) -> int:
        """How many items one party holds at most."""
        return -(-n_items // min(mf.parties, n_items)) if mf.split == "random" else n_items

    def count(self, mf: Any, interactions: Interactions) -> int:
        """How many parties these data make: with fewer items, as many as items."""
        few = mf.split == "random" and interactions.n_items < mf.parties
        return interactions.n_items if few else int(mf.parties)

    def deal(self, mf: Any, interactions: Interactions, rng: np.random.Generator) -> Sequence[Ints]:
        """Items of every party, ascending.

        InputError for items without genres, or if the categories that have items are not as many as
        ``parties``.
        """
        if mf.split == "random":
            return _dealt(interactions.n_items, self.count(mf, interactions), rng)
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
        if len(shares) != mf.parties:
            raise InputError(
                f"Expected one party a category that has items, {len(shares)}, got "
                f"parties={mf.parties!r}. Give parties={len(shares)}."
            )
        return shares

    def held(self, ratings: sparse.csr_array, members: Ints) -> sparse.csr_array:
        """All users' ratings of the items ``members``, users by items."""
        return sparse.csr_array(ratings[:, members])

    def step_scale(self, n_users: int, ratings: int | Ints) -> float | Floats:
        """One over the ratings of an average row, 1/(m_k tau), as the party's own data have it.

        Of one rating at least: a row that is drawn has one, and steps would be too long.
        """
        return 1.0 / np.maximum(1.0, ratings / n_users)


@dataclass(frozen=True, slots=True)
class Users:
    """All ratings of some users (``of_users``), who are dealt at random, in shares of one size."""

    of_users: ClassVar[bool] = True

    def most(self, mf: Any, n_items: int) -> int:
        """How many items one party holds at most: all."""
        return n_items

    def count(self, mf: Any, interactions: Interactions) -> int:
        """How many parties these data make: with fewer users, as many as users."""
        return min(int(mf.parties), interactions.n_users)

    def deal(self, mf: Any, interactions: Interactions, rng: np.random.Generator) -> Sequence[Ints]:
        """Users of every party, ascending."""
        return _dealt(interactions.n_users, self.count(mf, interactions), rng)

    def held(self, ratings: sparse.csr_array, members: Ints) -> sparse.csr_array:
        """All ratings of the users ``members``, users by items."""
        return sparse.csr_array(ratings[members])

    def step_scale(self, n_users: int, ratings: int | Ints) -> float | Floats:
        """One over the ratings of an average row, 1/(m tau), a number that is taken as public."""
        return n_users / np.maximum(1, ratings)


Holding = Items | Users


def _dealt(count: int, parties: int, rng: np.random.Generator) -> list[Any]:
    return [np.sort(share) for share in np.array_split(rng.permutation(count), parties)]
