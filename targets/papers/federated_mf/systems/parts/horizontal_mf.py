"""Horizontal federated matrix factorization: parties share item embeddings, keep those of users."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedrec_auditor.accountants.statements.sizes import Sizes
from fedrec_auditor.targets.components import Component, Dense, Floats, Ints, Kind
from fedrec_auditor.targets.compute import one_thread
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.papers.federated_mf.systems.parts.averaging import Averaging
from fedrec_auditor.targets.papers.federated_mf.systems.parts.descent import Clipping, Descent
from fedrec_auditor.targets.papers.federated_mf.systems.parts.party_mf import START, Party
from fedrec_auditor.targets.papers.federated_mf.systems.parts.sgd_mf import project, start
from fedrec_auditor.targets.papers.federated_mf.systems.parts.user_fit import fit_users
from fedrec_auditor.targets.settings import check_settings, positive, whole_or_none
from fedrec_auditor.targets.streams import Streams
from fedrec_auditor.targets.systems.base import Model
from fedrec_auditor.targets.systems.system import Trained
from fedrec_auditor.targets.systems.system import received as table
from fedrec_auditor.targets.transcript import Broadcast


@dataclass(frozen=True, kw_only=True)
class HorizontalMf(Averaging):
    """T rounds of T' local steps, then V is the mean of all V^(k), weighted by n_k/n (Figure 3).

    ``tuning`` is the number of local steps of the last stage (0 in the vanilla paradigm) and
    ``tuning_rate`` their g, neither printed in the paper. Users are dealt to parties at random, in
    shares of one size. A message is V^(k), m x p in float32. User embeddings never leave a party;
    the last V is published.

    A party divides sums by its number of ratings; this number is taken as public, as n_k is.
    """

    learning_rate: float = 0.3
    tuning: int = 0
    tuning_rate: float = 0.5

    shares = "items"
    component = "items"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_settings(self, tuning=whole_or_none, tuning_rate=positive)

    @property
    @abstractmethod
    def joint(self) -> bool:
        """Whether user embeddings move in the second stage, too."""

    @property
    def pretrained(self) -> int:
        """Steps in which user embeddings are fitted to the first V, in the first stage."""
        return 0

    @property
    def sizes(self) -> Sizes:
        """Rounds, and ratings of a user where they are trimmed."""
        return Sizes(rounds=self.rounds, ratings=self.trimmed)

    def count(self, interactions: Interactions) -> int:
        """With fewer users than parties, as many parties as users."""
        return min(self.parties, interactions.n_users)

    def step_scale(self, n_users: int, n_items: int, ratings: int | Ints) -> float | Floats:
        """One over the ratings of an average row, 1/(m tau), as the party's own data have it."""
        return n_users / np.maximum(1, ratings)

    def deal(self, interactions: Interactions, rng: np.random.Generator) -> Sequence[Ints]:
        """Users dealt at random."""
        dealt = np.array_split(rng.permutation(interactions.n_users), self.count(interactions))
        return [np.sort(members) for members in dealt]

    def held(self, ratings: sparse.csr_array, members: Ints) -> sparse.csr_array:
        """All ratings of the party's users."""
        return sparse.csr_array(ratings[members])

    def parted(
        self, interactions: Interactions, shared: Floats | None, rng: np.random.Generator
    ) -> list[Party]:
        """The parties, whose user embeddings are ``pretrained``."""
        made = super().parted(interactions, shared, rng)
        if self.pretrained and shared is not None:
            for party in made:
                party.own = fit_users(party.full, shared, bound=self.bound, steps=self.pretrained)
        return made

    def local(self, party: Party, shared: Floats, number: int) -> tuple[Floats, Floats]:
        """V^(k); user embeddings move with ``joint``, n_k/n as fast (equation 5)."""
        users, items = self.descent(len(party.members)).train(
            party.own,
            shared,
            party.ratings,
            party.rng,
            user_scale=party.step_scale * party.weight * self.joint,
            item_scale=party.step_scale,
            first=number * self.local_steps,
            count=self.local_steps,
        )
        return items, users

    def broadcast(self, shared: Floats, first: Floats) -> dict[str, Floats]:
        """V as it is, and as it was first."""
        return {"items": shared, "first": first}

    def finish(self, parties: list[Party], shared: Floats, first: Floats) -> Trained:
        """Every party fine-tunes; V is published, users and the parties' own V are not."""
        tuned = np.stack([self.tune(party, shared) for party in parties])
        return Trained(self.broadcast(shared, first), self.kept(parties, tuned))

    def kept(self, parties: list[Party], items: Floats) -> dict[str, Any]:
        """What users and parties predict with: ``items`` (s, m, p) are the parties' own V."""
        n = sum(len(party.members) for party in parties)
        users, home = np.empty((n, self.factors), np.float32), np.empty(n, np.int64)
        for k, party in enumerate(parties):
            users[party.members], home[party.members] = party.own, k
        return {"users": users, "items": items, "home": home}

    def tune(self, party: Party, items: Floats) -> Floats:
        """The party's own V after fine-tuning without noise; its user embeddings change, too.

        On all of its ratings, untrimmed, in both embeddings with embedding clipping: user
        embeddings are first fitted to V, then both take ``tuning`` steps.
        """
        if not self.tuning:
            return items
        descent = Descent(
            learning_rate=self.tuning_rate,
            steps=self.tuning,
            rate=self.rate,
            clipping=Clipping.of_embeddings(self.bound),
        )
        users = fit_users(party.full, items, bound=self.bound, steps=self.pretrained or 20)
        scale = party.full.shape[0] / max(1, party.full.nnz)
        party.own, tuned = descent.train(
            users,
            items,
            party.full,
            party.rng,
            user_scale=scale,
            item_scale=scale,
            count=self.tuning,
        )
        return tuned

    def score(
        self, model: Model, interactions: Interactions, users: NDArray[np.integer[Any]]
    ) -> Floats:
        """Predicted ratings u.v, (len(users), n_items): a user's party predicts with its own V."""
        tables, home = model.arrays["items"], model.arrays["home"]
        out = np.empty((len(users), tables.shape[1]), np.float32)
        with one_thread():
            for k in np.unique(home[users]):
                at = home[users] == k
                out[at] = model.arrays["users"][users[at]] @ tables[k].T
        return out

    def messages(
        self, profiles: Interactions, owners: Ints, broadcast: Broadcast | None, streams: Streams
    ) -> dict[str, Component]:
        """V^(k), (m, p).

        A party of several users adds up their gradients before the noise, so this is its message
        if its other users had no ratings, but for the number of ratings it divides by.
        """
        items, first = self.received(broadcast, profiles)

        def begin(block: Ints, part: sparse.csr_array, own: Streams) -> tuple[Floats, Floats]:
            return self.fitted(part, first, own), np.tile(items, (len(block), 1))

        one = profiles.take(owners)
        _, moved = self.alone(one, streams, self.local_steps, begin, self.joint)
        return {self.component: Dense(moved, Kind.MODEL)}

    def received(
        self, broadcast: Broadcast | None, profiles: Interactions
    ) -> tuple[Floats, Floats]:
        """V as it is, and as it was first, to which user embeddings are pre-trained."""
        shape, sent = (profiles.n_items, self.factors), broadcast or {}
        items = table(sent, "items", shape).astype(np.float32)
        first = table(sent, "first", shape).astype(np.float32) if "first" in sent else items
        return project(items, self.bound), project(first, self.bound)

    def fitted(self, full: sparse.csr_array, first: Floats, streams: Streams) -> Floats:
        """First user embeddings of parties of one user each."""
        if self.pretrained:
            return fit_users(full, first, bound=self.bound, steps=self.pretrained)
        return start(streams.fold_in(START).uniform(self.factors), self.bound)
