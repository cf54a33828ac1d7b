"""Parties that hold some items' ratings each: what the vertical and the central systems share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.components import Floats, Ints
from fedrec_auditor.targets.compute import one_thread
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.papers.federated_mf.systems.parts.party_mf import START, PartyMf
from fedrec_auditor.targets.papers.federated_mf.systems.parts.sgd_mf import UNITS, start
from fedrec_auditor.targets.settings import check_choice, check_settings, whole
from fedrec_auditor.targets.streams import Streams
from fedrec_auditor.targets.systems.base import Model
from fedrec_auditor.targets.transcript import Broadcast

SPLITS = ("random", "category")


@dataclass(frozen=True, kw_only=True)
class RatingParties(PartyMf):
    """Settings, split of the items, local training and prediction; members say what is sent.

    ``unit`` and ``trim`` (theta, used per user only) are the paper's (section 4.3: T = 100, T' =
    10, p = 20, sampling rate 0.01, theta 10 for s = 1, 5 for 2 to 10, 2 for 18). The paper tunes
    ``learning_rate`` for every privacy budget, so the defaults of all members were picked by MSE on
    MovieLens-100K, on the split that utility is reported on. Items are dealt to parties at random
    in shares of one size, or with ``split`` "category" each to the category of its own that has the
    fewest items, one party a category that has any (section 4.3). A party's ratings are trimmed
    once, before the training.
    """

    unit: str = "rating"
    trim: int = 5
    split: str = "random"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_settings(self, trim=whole)
        check_choice(self, "unit", UNITS)
        check_choice(self, "split", SPLITS)

    def count(self, interactions: Interactions) -> int:
        """With fewer items than parties, as many parties as items."""
        few = self.split == "random" and interactions.n_items < self.parties
        return interactions.n_items if few else self.parties

    @property
    def trimmed(self) -> int | None:
        """theta per user; per rating all ratings count."""
        return self.trim if self.unit == "user" else None

    def deal(self, interactions: Interactions, rng: np.random.Generator) -> Sequence[Ints]:
        """Items dealt at random in shares of one size, or by category.

        By category an item goes to that of its own which has the fewest items, or without one to
        the fewest of all (section 4.3). InputError for items without genres, or if the categories
        that have items are not as many as ``parties``.
        """
        if self.split == "random":
            dealt = np.array_split(rng.permutation(interactions.n_items), self.count(interactions))
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
        if len(shares) != self.parties:
            raise InputError(
                f"Expected one party a category that has items, {len(shares)}, got "
                f"parties={self.parties!r}. Give parties={len(shares)}."
            )
        return shares

    def held(self, ratings: sparse.csr_array, members: Ints) -> sparse.csr_array:
        """All users' ratings of the party's items."""
        return sparse.csr_array(ratings[:, members])

    def score(
        self, model: Model, interactions: Interactions, users: NDArray[np.integer[Any]]
    ) -> Floats:
        """Predicted ratings u.v, (len(users), n_items).

        Every item's party predicts with its version of the user embeddings, (s, n, p), where the
        parties have one each.
        """
        items, versions = model.arrays["items"], model.arrays["users"]
        with one_thread():
            if versions.ndim == 2:
                return np.asarray(versions[users] @ items.T)
            out = np.empty((len(users), len(items)), dtype=items.dtype)
            for party, version in enumerate(versions):
                columns = np.flatnonzero(model.arrays["owner"] == party)
                out[:, columns] = version[users] @ items[columns].T
            return out

    def step_scale(self, n_users: int, n_items: int, ratings: int | Ints) -> float | Floats:
        """One over the ratings of an average row, 1/(m_k tau), as the party's own data have it.

        Of one rating at least: a row that is drawn has one, and steps would be too long.
        """
        return 1.0 / np.maximum(1.0, ratings / n_users)

    def drawn_items(self, n: int, m: int, streams: Streams) -> tuple[Floats, Floats]:
        """First embeddings of parties of one user: of users, (n, p), and items, (n, m, p)."""
        uniform = streams.fold_in(START).uniform((m + 1) * self.factors)
        rows = start(uniform.reshape(n, m + 1, self.factors), self.bound)
        return rows[:, m], rows[:, :m]

    def received(self, broadcast: Broadcast | None, profiles: Interactions) -> Floats:
        """The broadcast embeddings of these users, (n, p)."""
        users = None if broadcast is None else broadcast.get("users")
        shapes = tuple((rows, self.factors) for rows in (profiles.n_users, 1))
        if users is None or users.shape not in shapes:
            got = None if users is None else users.shape
            raise InputError(
                f'Expected broadcast embeddings "users" of shape {shapes[0]}, got {got}. Send one '
                "row a profile, in their order, or one for all."
            )
        return np.broadcast_to(users, shapes[0])
