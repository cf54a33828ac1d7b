"""Parties that hold some items' ratings each: what the vertical and the central systems share."""

from __future__ import annotations

from abc import abstractmethod
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
from fedrec_auditor.targets.settings import check_choice, check_settings, whole
from fedrec_auditor.targets.streams import Streams
from fedrec_auditor.targets.systems.base import Model
from fedrec_auditor.targets.systems.federated_mf.parts.descent import Descent
from fedrec_auditor.targets.systems.federated_mf.parts.party_mf import PartyMf
from fedrec_auditor.targets.systems.federated_mf.parts.party_randomness import (
    PartyRandomness,
    StreamRandomness,
)
from fedrec_auditor.targets.systems.federated_mf.parts.sgd_mf import (
    UNITS,
    blocks,
    explicit,
    start,
    trim,
)
from fedrec_auditor.targets.transcript import Broadcast

SPLITS = ("random", "category")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parties:
    """What all parties hold, stacked: s copies of the users, and the items party by party.

    ``ratings`` (s n, m) has party k's (trimmed) ratings in rows k n to (k + 1) n, over its own
    items, ``owned[k]`` to ``owned[k + 1]`` of ``order``, which are columns of the whole table.
    ``step_scale`` (s,) is one over the ratings of an average row of each, 1/(m_k tau).
    """

    ratings: sparse.csr_array
    order: Ints
    owned: Ints
    step_scale: Floats
    randomness: PartyRandomness

    @property
    def count(self) -> int:
        """Number of parties, s."""
        return len(self.step_scale)

    @property
    def weights(self) -> Floats:
        """Every party's share of the items, m_k/m, (s,)."""
        return np.diff(self.owned) / len(self.order)

    def by_user(self) -> Floats:
        """``step_scale`` of every stacked user, (s n, 1)."""
        return np.repeat(self.step_scale, self.randomness.n_users)[:, None]

    def by_item(self, weighted: bool) -> Floats:
        """``step_scale`` of every item's party, (m, 1); ``weighted`` times m_k / m (equation 4)."""
        step_scale = self.step_scale * self.weights if weighted else self.step_scale
        return np.repeat(step_scale, np.diff(self.owned))[:, None]


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

    @abstractmethod
    def descent(self, n_users: int) -> Descent:
        """How a party of so many users steps."""

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

    def parted(self, interactions: Interactions, rng: np.random.Generator) -> Parties:
        """The parties: items dealt to them, randomness from one seed each.

        With fewer items than parties, as many parties as items. InputError for a split by
        categories of items that have none, or more or fewer categories than ``parties``.
        """
        table, n = explicit(interactions, self.bound).tocsc(), interactions.n_users
        shares = deal(interactions, self.parties, self.split, rng)
        generators, tables, step_scales = [], [], []
        for columns in shares:
            own = np.random.Generator(np.random.SFC64(int(rng.integers(1 << 63))))
            part = sparse.csr_array(table[:, columns])
            if self.unit == "user":
                part = trim(part, self.trim, Streams.spawn(own, n))
            generators.append(own)
            tables.append(part)
            step_scales.append(float(self.step_scale(n, len(columns), part.nnz)))
        owned = np.concatenate([[0], np.cumsum([len(columns) for columns in shares])])
        return Parties(
            ratings=sparse.csr_array(sparse.block_diag(tables, format="csr")),
            order=np.concatenate(shares),
            owned=owned,
            step_scale=np.array(step_scales),
            randomness=PartyRandomness(tuple(generators), n, owned),
        )

    def first(self, parties: Parties, counts: Ints) -> Floats:
        """First embeddings, ``counts[k]`` rows of each party's own randomness, stacked."""
        drawn = zip(parties.randomness.generators, counts, strict=True)
        return np.concatenate(
            [start(rng.random((count, self.factors)), self.bound) for rng, count in drawn]
        )

    def alone(
        self, profiles: Interactions, users: Floats | None, streams: Streams, steps: int
    ) -> tuple[Floats, Floats]:
        """Parties that hold one user and all items each: (n, p) and (n, m, p) after ``steps``.

        All randomness comes from the party's own stream. Parties are trained together, as one
        problem in which each has items of its own, as many at once as memory for about four million
        numbers allows. Without ``users`` their embeddings are drawn, too. A party of one user
        draws it in every step, unless units are drawn by themselves.
        """
        ratings = explicit(profiles, self.bound)
        if self.unit == "user":
            ratings = trim(ratings, self.trim, streams.fold_in(0).fold_in(0))
        n, m = ratings.shape
        moved = np.empty((n, self.factors), np.float32)
        items = np.empty((n, m, self.factors), np.float32)
        for block in blocks(n, m * self.factors):
            moved[block], items[block] = self._block(
                sparse.csr_array(ratings[block]),
                None if users is None else users[block],
                streams.take(block),
                steps,
            )
        return moved, items

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

    def _block(
        self, ratings: sparse.csr_array, users: Floats | None, streams: Streams, steps: int
    ) -> tuple[Floats, Floats]:
        (n, m), p = ratings.shape, self.factors
        draws = streams.fold_in(0)
        items = start(draws.fold_in(1).uniform(m * p).reshape(n * m, p), self.bound)
        if users is None:
            users = start(draws.fold_in(2).uniform(p), self.bound)
        counts = np.diff(ratings.indptr)
        # Every party has columns of its own.
        wide = sparse.csr_array(
            (ratings.data, ratings.indices + m * np.repeat(np.arange(n), counts), ratings.indptr),
            shape=(n, n * m),
        )
        step_scale = np.broadcast_to(self.step_scale(1, m, counts), n)[:, None]
        users, items = self.descent(1).train(
            users,
            items,
            wide,
            StreamRandomness(streams),
            user_scale=step_scale,
            item_scale=np.repeat(step_scale, m, axis=0),
            count=steps,
        )
        return users, items.reshape(n, m, p)


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
