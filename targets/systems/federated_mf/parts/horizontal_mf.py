"""Horizontal federated matrix factorization: parties share item embeddings, keep those of users."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedrec_auditor.accountants.statements.sizes import Sizes
from fedrec_auditor.targets.components import Component, Dense, Floats, Ints, Kind
from fedrec_auditor.targets.compute import Compute, one_thread
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.settings import check_settings, positive, whole_or_none
from fedrec_auditor.targets.streams import Streams
from fedrec_auditor.targets.systems.base import DEFAULT, Model
from fedrec_auditor.targets.systems.federated_mf.parts.party_mf import PartyMf
from fedrec_auditor.targets.systems.federated_mf.parts.party_steps import PartySteps
from fedrec_auditor.targets.systems.federated_mf.parts.sgd_mf import (
    blocks,
    explicit,
    project,
    start,
    trim,
)
from fedrec_auditor.targets.systems.federated_mf.parts.user_fit import fit_users
from fedrec_auditor.targets.systems.parts.system import Trained, Training
from fedrec_auditor.targets.systems.parts.system import received as table
from fedrec_auditor.targets.transcript import Broadcast, Round, Uploads

_TRIM, _START = 101, 102  # purposes of such a party's stream


@dataclass(slots=True)
class Party:
    """What a party keeps: its users, their ratings (all, and trimmed), embeddings, randomness.

    ``weight`` is its share of all users, n_k/n; ``step_scale`` is one over the number of trimmed
    ratings of an average user: 1/(m tau).
    """

    members: Ints
    full: sparse.csr_array
    ratings: sparse.csr_array
    users: Floats
    rng: np.random.Generator
    weight: float
    step_scale: float


@dataclass(frozen=True, kw_only=True)
class HorizontalMf(PartyMf):
    """T rounds of T' local steps, then V is the mean of all V^(k), weighted by n_k/n (Figure 3).

    ``tuning`` is the number of local steps of the last
    stage (0 in the vanilla paradigm) and ``tuning_rate`` their g, neither printed in the paper.
    Users are dealt to parties at random, in shares of one size. A message is V^(k),
    m x p in float32. User embeddings never leave a party; the last V is published.

    A party divides sums by its number of ratings; this number is taken as public, as n_k is.
    """

    learning_rate: float = 0.3
    tuning: int = 0
    tuning_rate: float = 0.5

    component = "items"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_settings(self, tuning=whole_or_none, tuning_rate=positive)

    @abstractmethod
    def local(self, weight: float) -> PartySteps:
        """How a party of this share of all users, n_k/n, steps in the second stage."""

    @property
    @abstractmethod
    def joint(self) -> bool:
        """Whether user embeddings move in the second stage, too."""

    @property
    def trimmed(self) -> int | None:
        """theta, the most ratings of a user that are looked at in the second stage."""
        return None

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

    def train(
        self, interactions: Interactions, rng: np.random.Generator, compute: Compute
    ) -> Training:
        """Every round's broadcast and all parties' messages.

        Memory beside the transcript is 2 s + 1 tables of item embeddings.
        """
        n, m = interactions.n_users, interactions.n_items
        first = items = start(rng.random((m, self.factors)), self.bound)
        parties = self.parted(interactions, items, rng)
        with one_thread():
            for number in range(self.rounds):
                sent = self.sent(parties, items, number)
                uploads = Uploads(np.arange(len(parties)), {self.component: sent})
                yield Round(broadcast={"items": items, "first": first}, uploads=uploads)
                items = self.merge(items, sent, parties, number)
            tuned = np.stack([self.tune(party, items) for party in parties])
        users, home = np.empty((n, self.factors), np.float32), np.empty(n, np.int64)
        for k, party in enumerate(parties):
            users[party.members], home[party.members] = party.users, k
        return Trained(
            {"items": items, "first": first}, {"users": users, "items": tuned, "home": home}
        )

    def sent(self, parties: list[Party], items: Floats, number: int) -> Component:
        """Every party's V^(k) after its local steps; user embeddings move with ``joint``."""
        out = np.empty((len(parties), *items.shape), dtype=np.float32)
        for k, party in enumerate(parties):
            party.users, out[k] = self.local(party.weight).train(
                party.users,
                items,
                party.ratings,
                party.rng,
                step_scale=party.step_scale,
                first=number * self.local_steps,
                count=self.local_steps,
            )
        return Dense(out, Kind.MODEL)

    def merge(self, items: Floats, sent: Component, parties: list[Party], number: int) -> Floats:
        """The next V: the weighted mean of all V^(k)."""
        weights = np.array([party.weight for party in parties])
        tables = sent.dense(np.arange(len(sent)))
        return np.asarray(np.tensordot(weights, tables, 1), dtype=np.float32)

    def tune(self, party: Party, items: Floats) -> Floats:
        """The party's own V after fine-tuning without noise; its user embeddings change, too.

        On all of its ratings, untrimmed, in both embeddings with embedding clipping: user
        embeddings are first fitted to V, then both take ``tuning`` steps.
        """
        if not self.tuning:
            return items
        steps = PartySteps(
            learning_rate=self.tuning_rate,
            steps=self.tuning,
            rate=self.rate,
            weight=1.0,
            bound=self.bound,
        )
        users = fit_users(party.full, items, bound=self.bound, steps=self.pretrained or 20)
        step_scale = party.full.shape[0] / max(1, party.full.nnz)
        party.users, tuned = steps.train(
            users, items, party.full, party.rng, step_scale=step_scale, first=0, count=self.tuning
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

    def parted(
        self, interactions: Interactions, items: Floats, rng: np.random.Generator
    ) -> list[Party]:
        """The parties: users dealt at random, each party's randomness from a seed of its own."""
        table = explicit(interactions, self.bound)
        dealt = rng.permutation(interactions.n_users)
        made = []
        for members in np.array_split(dealt, self.count(interactions)):
            own = np.random.Generator(np.random.SFC64(int(rng.integers(1 << 63))))
            members = np.sort(members)
            full = ratings = sparse.csr_array(table[members])
            if self.trimmed is not None:
                ratings = trim(full, self.trimmed, Streams.spawn(own, len(members)))
            users = start(own.random((len(members), self.factors)), self.bound)
            if self.pretrained:
                users = fit_users(full, items, bound=self.bound, steps=self.pretrained)
            step_scale = float(self.step_scale(len(members), interactions.n_items, ratings.nnz))
            weight = len(members) / interactions.n_users
            made.append(Party(members, full, ratings, users, own, weight, step_scale))
        return made

    def upload(
        self,
        profiles: Interactions,
        broadcast: Broadcast | None,
        rng: np.random.Generator,
        size: int = 1,
        compute: Compute = DEFAULT,
    ) -> Uploads:
        """First messages of parties that hold one user each, (m, p).

        A party of several users adds up their gradients before the noise, so this is its message
        if its other users had no ratings, but for the number of ratings it divides by.
        """
        items, first = self.received(broadcast, profiles)
        owners = np.repeat(np.arange(profiles.n_users), size)
        streams = Streams.spawn(rng, len(owners))
        table = sparse.csr_array(explicit(profiles, self.bound)[owners])
        return Uploads(owners, {self.component: self.alone(table, items, first, streams)})

    def alone(
        self, full: sparse.csr_array, items: Floats, first: Floats, streams: Streams
    ) -> Component:
        """Messages of n parties of one user each, (m, p), all randomness from the party's stream.

        They are trained together, as one problem in which each has items of its own; so many at
        once as have four million embeddings.
        """
        (n, m), p = full.shape, self.factors
        out = np.empty((n, m, p), np.float32)
        for block in blocks(n, m * p):
            own = streams.take(block)
            ratings, users = self._prepared(sparse.csr_array(full[block]), first, own)
            counts = np.diff(ratings.indptr)
            out[block] = self.local(1.0).singles(
                users,
                items,
                ratings,
                own,
                step_scale=np.broadcast_to(self.step_scale(1, m, counts), len(counts)),
                count=self.local_steps,
            )
        return Dense(out, Kind.MODEL)

    def received(
        self, broadcast: Broadcast | None, profiles: Interactions
    ) -> tuple[Floats, Floats]:
        """V as it is, and as it was first, to which user embeddings are pre-trained."""
        shape, sent = (profiles.n_items, self.factors), broadcast or {}
        items = table(sent, "items", shape).astype(np.float32)
        first = table(sent, "first", shape).astype(np.float32) if "first" in sent else items
        return project(items, self.bound), project(first, self.bound)

    def _prepared(
        self, full: sparse.csr_array, first: Floats, streams: Streams
    ) -> tuple[sparse.csr_array, Floats]:
        """Trimmed ratings and first user embeddings of parties of one user each."""
        ratings = full
        if self.trimmed is not None:
            ratings = trim(full, self.trimmed, streams.fold_in(_TRIM))
        if self.pretrained:
            return ratings, fit_users(full, first, bound=self.bound, steps=self.pretrained)
        return ratings, start(streams.fold_in(_START).uniform(self.factors), self.bound)
