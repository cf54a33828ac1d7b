"""Matrix factorization between parties that hold several users' or some items' ratings each."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from fedrec_auditor.accountants.statements.scope import Adjacency, Horizon, Scope, Unit, Vantage
from fedrec_auditor.targets.components import Component, Floats, Ints
from fedrec_auditor.targets.compute import Compute
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.papers.federated_mf.systems.parts.descent import Descent
from fedrec_auditor.targets.papers.federated_mf.systems.parts.sgd_mf import (
    batch_size,
    blocks,
    explicit,
    start,
    trim,
)
from fedrec_auditor.targets.settings import check_settings, positive, scale, share, whole
from fedrec_auditor.targets.streams import Streams
from fedrec_auditor.targets.systems.base import DEFAULT, Evaluation, Split
from fedrec_auditor.targets.systems.system import System
from fedrec_auditor.targets.transcript import Broadcast, Public, Uploads

TRIM, START = 101, 102
"""Purposes of the stream of a party of one user."""
SINGLE = (Unit.RATING, Unit.INTERACTION, Unit.BIT)
"""Units of one rating."""


@dataclass(slots=True)
class Party:
    """What a party keeps: its users or items, their ratings, their embeddings, its randomness.

    ``members`` are its users (horizontal) or its items (vertical), places in the whole table, and
    ``own`` their embeddings. ``full`` are all ratings of theirs, ``ratings`` the trimmed ones,
    users by items. ``weight`` is its share of all users or items; ``step_scale`` is one over the
    number of trimmed ratings of an average user, 1/(m tau).
    """

    members: Ints
    full: sparse.csr_array
    ratings: sparse.csr_array
    own: Floats
    rng: np.random.Generator
    weight: float
    step_scale: float


@dataclass(frozen=True, kw_only=True)
class PartyMf(System):
    """Settings of T rounds of T' local steps of gradient descent in every party.

    ``factors`` p, ``rounds`` T, ``local_steps`` T', ``rate`` (of the rows sampled in a step) and
    ``parties`` s are the paper's (sections 4.3, 5.3); ``bound`` is R, the largest rating there can
    be; ``learning_rate`` is g of ``sgd_mf``, which the paper does not print.
    """

    factors: int = 20
    rounds: int = 100
    local_steps: int = 10
    rate: float = 0.01
    parties: int = 10
    bound: float = 5.0
    learning_rate: float = 0.05

    evaluation = Evaluation(split=Split.HELD_OUT_RATINGS, cutoffs=())

    def __post_init__(self) -> None:
        check_settings(self, factors=whole, rounds=whole, local_steps=whole, parties=whole)
        check_settings(self, rate=share, bound=scale, learning_rate=positive)

    @property
    def steps(self) -> int:
        """All joint steps of a training, T T'."""
        return self.rounds * self.local_steps

    @property
    def trimmed(self) -> int | None:
        """theta, the most ratings of a user that a party looks at; None for all."""
        return None

    @abstractmethod
    def count(self, interactions: Interactions) -> int:
        """How many parties these data make."""

    @abstractmethod
    def deal(self, interactions: Interactions, rng: np.random.Generator) -> Sequence[Ints]:
        """Users, or items, of every party, ascending."""

    @abstractmethod
    def held(self, ratings: sparse.csr_array, members: Ints) -> sparse.csr_array:
        """The ratings of a party that has these ``members``, users by items."""

    def descent(self, n_users: int, joint: bool = True) -> Descent:
        """How a party of so many users steps, on both tables or (not ``joint``) on items alone.

        Plain steps on sampled rows, unless a member protects them.
        """
        return Descent(learning_rate=self.learning_rate, steps=self.steps, rate=self.rate)

    @abstractmethod
    def step_scale(self, n_users: int, n_items: int, ratings: int | Ints) -> float | Floats:
        """One over the ratings of an average row, 1/(m tau), as the party's own data have it."""

    def public(self, interactions: Interactions) -> Public:
        """What everybody knows: messages come from parties."""
        return replace(super().public(interactions), parties=self.count(interactions))

    def upload(
        self,
        profiles: Interactions,
        broadcast: Broadcast | None,
        rng: np.random.Generator,
        size: int = 1,
        compute: Compute = DEFAULT,
    ) -> Uploads:
        """First messages of parties that hold one user and all items each.

        All randomness comes from the party's own stream.
        """
        owners = np.repeat(np.arange(profiles.n_users), size)
        streams = Streams.spawn(rng, len(owners))
        return Uploads(owners, self.messages(profiles, owners, broadcast, streams))

    @abstractmethod
    def messages(
        self, profiles: Interactions, owners: Ints, broadcast: Broadcast | None, streams: Streams
    ) -> dict[str, Component]:
        """Those of ``upload``: of a party for every one of ``owners``, users of ``profiles``."""

    def alone(
        self,
        profiles: Interactions,
        streams: Streams,
        steps: int,
        begin: Callable[[Ints, sparse.csr_array, Streams], tuple[Floats, Floats]],
        joint: bool = True,
    ) -> tuple[Floats, Floats]:
        """Embeddings (n, p) and (n, m, p) of parties of one user each after ``steps``.

        As many are trained at once as have four million embeddings. ``begin`` says what they begin
        with, given their places, ratings and streams; user embeddings move if ``joint``.
        """
        full, p = explicit(profiles, self.bound), self.factors
        n, m = full.shape
        users, items = np.empty((n, p), np.float32), np.empty((n, m, p), np.float32)
        for block in blocks(n, m * p):
            own, part = streams.take(block), sparse.csr_array(full[block])
            first, table = begin(block, part, own)
            if self.trimmed is not None:
                part = trim(part, self.trimmed, own.fold_in(TRIM))
            scale = np.broadcast_to(self.step_scale(1, m, np.diff(part.indptr)), len(block))
            users[block], after = self.descent(1).train_alone(
                first,
                table.reshape(-1, p),
                m * np.arange(len(block) + 1),
                part,
                own,
                user_scale=scale * joint,
                item_scale=scale,
                count=steps,
            )
            items[block] = after.reshape(-1, m, p)
        return users, items

    def parted(
        self, interactions: Interactions, shared: Floats | None, rng: np.random.Generator
    ) -> list[Party]:
        """The parties, each with randomness from a seed of its own.

        ``shared`` are the first shared embeddings, to which own ones may be fitted.
        """
        table, dealt = explicit(interactions, self.bound), self.deal(interactions, rng)
        total, made = sum(len(members) for members in dealt), []
        for members in dealt:
            own = np.random.Generator(np.random.SFC64(int(rng.integers(1 << 63))))
            full = ratings = self.held(table, members)
            n, m = full.shape
            if self.trimmed is not None:
                ratings = trim(full, self.trimmed, Streams.spawn(own, n))
            rows = start(own.random((len(members), self.factors)), self.bound)
            step_scale = float(self.step_scale(n, m, ratings.nnz))
            made.append(Party(members, full, ratings, rows, own, len(members) / total, step_scale))
        return made


def party_sizes(n_users: int, parties: int) -> tuple[int, ...]:
    """The least and the largest number of users of a party."""
    count = min(parties, n_users)
    return n_users // count, -(-n_users // count)


def drawn_shares(sizes: Sequence[int], rate: float) -> tuple[float, float]:
    """The least and the largest share of their rows that steps of parties draw: n' is whole."""
    shares = [batch_size(size, rate) / size for size in sizes]
    return min(shares), max(shares)


def scope_of(
    unit: str, vantage: Vantage = Vantage.SERVER, adjacency: Adjacency = Adjacency.ADD_REMOVE
) -> Scope:
    """A scope of the paper's claims: of a rating or a user, over the training."""
    return Scope(unit=Unit(unit), adjacency=adjacency, vantage=vantage, horizon=Horizon.TRAINING)
