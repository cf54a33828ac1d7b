"""Base class of matrix factorization between parties that hold some users or some items each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import numpy as np
from numpy.random import Generator
from scipy import sparse

from fedrec_auditor.accountants.statements import Adjacency, Horizon, Scope, Sizes, Unit, Vantage
from fedrec_auditor.targets.components import Floats, Ints
from fedrec_auditor.targets.compute import Machine, one_thread
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.papers.federated_mf.systems.parts.descent import (
    DataDivision,
    GradientDescent,
)
from fedrec_auditor.targets.papers.federated_mf.systems.parts.sgd_mf import (
    check_ratings,
    fit_user_embeddings,
    get_batch_size,
    init_embeddings,
    iter_party_blocks,
    trim_ratings,
)
from fedrec_auditor.targets.settings import Count, Positive, Probability, RatingScale, Share
from fedrec_auditor.targets.streams import Streams
from fedrec_auditor.targets.systems.base import HoldOut, Model, UtilityTest
from fedrec_auditor.targets.systems.system import Messages, System, TrainingGenerator, UploadRequest
from fedrec_auditor.targets.transcript import PublicInfo

_TRIM = 101  # key of the random stream that trims the ratings of a party of one user
# Function from indices, ratings and streams of parties of one user to their first embeddings.
Initializer = Callable[[Ints, sparse.csr_array, Streams], tuple[Floats, Floats]]


@dataclass(slots=True)
class Party:
    """State of one party during a training.

    ``member_ids``: indices of its users (horizontal) or of its items (vertical) in the whole table.
    ``all_ratings``: all ratings of these users or items, users by items.
    ``ratings``: the ratings after trimming, users by items.
    ``own_embeddings``: embeddings of these users or items, which the party keeps.
    ``rng``: the party's random generator.
    ``weight``: the party's share of all users or items.
    ``step_scale``: one over the number of trimmed ratings of an average user, 1/(m tau).
    """

    member_ids: Ints
    all_ratings: sparse.csr_array
    ratings: sparse.csr_array
    own_embeddings: Floats
    rng: Generator
    weight: float
    step_scale: float

    def train(
        self,
        descent: GradientDescent,
        tables: tuple[Floats, Floats],
        sizes: tuple[float, float],
        first: int,
        count: int,
    ) -> tuple[Floats, Floats]:
        """Returns user and item embeddings after ``count`` gradient steps on the party's ratings.

        ``tables``: user and item embeddings before the steps.
        ``sizes``: factors on the learning rate for steps on users and on items; at 0 the table does
            not move.
        ``first``: index of the first step in the training, on which the learning rate depends.
        """
        users, items = tables
        return descent.train(
            users,
            items,
            self.ratings,
            self.rng,
            user_scale=sizes[0],
            item_scale=sizes[1],
            first=first,
            count=count,
        )


@dataclass(frozen=True, slots=True)
class StepSampling:
    """Sampling of a gradient step, and the number by which the step's gradient sum is divided.

    ``unit``: "row" for a fixed number of rows (users) per step; "rating" or "user" if each rating
        or user is drawn independently.
    ``density``: public guess of the share of observed ratings, which gives the divisor; if None,
        the divisor counts the party's own ratings.
    """

    unit: str = "row"
    density: float | None = None


class Exchange(ABC):
    """Base class of the protocols by which parties and server exchange embeddings.

    ``is_one_step``: whether no messages are sent during the local steps, so that the training is a
        single step of the generator.
    ``tuning``: number of steps that a party takes alone at the end.
    """

    is_one_step: ClassVar[bool] = False
    tuning: int = 0

    @abstractmethod
    def train(self, mf: PartyMf, interactions: Interactions, rng: Generator) -> TrainingGenerator:
        """Runs the training of the system ``mf``; yields one round at a time, and returns the
        result.
        """

    def make_messages(self, mf: PartyMf, calls: UploadRequest) -> Messages:
        """Returns the first messages, by name, of parties of one user each; empty if parties send
        nothing.
        """
        return {}


@dataclass(frozen=True, kw_only=True)
class PartyMf(System):
    """Base class of systems with T rounds of T' gradient steps in every party.

    A system defines the data of parties (``division``), the messages and their times
    (``exchange``), the steps and noise of a party (``descent``), and the initial user embeddings
    (``n_fit_steps``).

    ``factors`` p, ``rounds`` T, ``local_steps`` T', ``rate`` (share of the rows sampled in a step)
    and ``parties`` s are the paper's (sections 4.3, 5.3).

    ``bound`` is R, the largest possible rating.

    ``learning_rate`` is g of ``sgd_mf``, which the paper does not print. The defaults of all
    systems were chosen by MSE on MovieLens-100K, on the split on which utility is reported. A
    party's ratings are trimmed once, before the training.

    ``split`` of some systems is the way in which items are dealt to parties, at random or by genre.

    ``tuning`` is the number of steps that a party takes alone at the end, and ``tuning_rate`` is
    their learning rate.
    """

    factors: Annotated[Count, "p, entries of a user's and of an item's vector"] = 20
    rounds: Annotated[Count, "T, rounds per training"] = 100
    local_steps: Annotated[Count, "T', steps of a party per round"] = 10
    rate: Annotated[Share, "share of the rows that are sampled in a step"] = 0.01
    parties: Annotated[Count, "s, number of parties"] = 10
    bound: RatingScale = 5.0
    learning_rate: Annotated[Positive, "g, learning rate"] = 0.05
    spread: Annotated[Probability, "spread of the first embeddings; 0: all equal"] = 1.0

    division: ClassVar[DataDivision]
    evaluation = UtilityTest(split=HoldOut.HELD_OUT_RATINGS, cutoffs=())

    @property
    @abstractmethod
    def exchange(self) -> Exchange:
        """Protocol by which parties and server exchange embeddings."""

    @property
    def steps(self) -> int:
        """Number of gradient steps of a training before the tuning: rounds times local steps."""
        return self.rounds * self.local_steps

    @property
    def max_ratings(self) -> int | None:
        """Maximum number of ratings per user that a party uses; None for all ratings."""
        return None

    @property
    def sampling(self) -> StepSampling:
        """Sampling of a step's rows (users) or ratings, and the divisor of the step's gradient
        sum.
        """
        return StepSampling()

    @property
    def sizes(self) -> Sizes:
        """Number of rounds, and the maximum number of ratings of a user.

        The second number is None unless one party holds all of a user's ratings and trims them.
        """
        return Sizes(
            rounds=self.rounds, ratings=self.max_ratings if self.division.is_by_user else None
        )

    @property
    def n_fit_steps(self) -> int:
        """Number of steps that fit user embeddings to the first item embeddings; by default 0."""
        return 0

    @property
    def n_steps(self) -> int:
        """Number of steps of the training generator: the rounds, or 1 without any messages."""
        return 1 if self.exchange.is_one_step else self.rounds

    def get_cost_args(self, interactions: Interactions) -> dict[str, float]:
        """Returns arguments, by name, of ``TrainingCost.estimate``, which estimates time and memory
        of a training.

        Each party sends one table per round: the larger of the user and the item table. A step
        passes over the share of the ratings that it samples.
        """
        numbers = self.factors * max(interactions.n_users, interactions.n_items)
        steps = self.steps + self.n_fit_steps + self.exchange.tuning
        return {
            "senders": 0 if self.is_central else self.division.count_parties(self, interactions),
            "width": self.factors,
            "numbers": numbers,
            "bytes": 4 * numbers,
            "held": self.factors * self.parties,
            "passes": steps * self.rate,
        }

    def make_descent(self, n_users: int, with_users: bool = True) -> GradientDescent:
        """Returns the gradient steps of a party of ``n_users`` users, by default without noise or
        clipping.

        The steps move user and item embeddings (``with_users``), or only the items.
        """
        return GradientDescent(
            learning_rate=self.learning_rate,
            n_steps=self.steps,
            fraction=self.rate,
            sampling_unit=self.sampling.unit,
        )

    def get_step_scale(self, n_users: int, n_items: int, ratings: int | Ints) -> float | Floats:
        """Returns the factor on the lengths of a party's steps: one over the average number of
        ratings of a user.

        ``ratings`` is the party's own number of ratings, or an array of such numbers. If the
        sampling has a public ``density``, the average is computed from the density instead.
        """
        if self.sampling.density is None:
            return self.division.get_step_scale(n_users, ratings)
        guess = max(1.0, self.sampling.density * n_items)
        return 1.0 / (guess if self.max_ratings is None else min(guess, self.max_ratings))

    def train(
        self, interactions: Interactions, rng: Generator, compute: Machine
    ) -> TrainingGenerator:
        """Runs the training by the protocol ``exchange``, one round at a time."""
        return self.exchange.train(self, interactions, rng)

    def get_public_info(self, interactions: Interactions) -> PublicInfo:
        """Returns what the adversary knows of a run, in which the parties are the senders."""
        n_silos = self.division.count_parties(self, interactions)
        return replace(super().get_public_info(interactions), n_silos=n_silos)

    def make_messages(self, request: UploadRequest) -> Messages:
        """Returns the first messages of parties, each of which holds one user and all items.

        All randomness of a message comes from its party's own stream.
        """
        return self.exchange.make_messages(self, request)

    def score(self, model: Model, interactions: Interactions, users: Ints) -> Floats:
        """Returns predicted ratings u.v of ``users``, shape (len(users), n_items), for embeddings u
        and v.

        If each party has its own item embeddings, users are predicted with those of the party that
        holds the user (array "home"). If each party has its own user embeddings, items are
        predicted with those of the party that holds the item (array "owner").
        """
        own, items = model.arrays["users"], model.arrays["items"]
        with one_thread():
            if "home" in model.arrays:
                home = model.arrays["home"][users]
                out = np.empty((len(users), items.shape[1]), np.float32)
                for k in np.unique(home):
                    out[home == k] = own[users[home == k]] @ items[k].T
                return out
            if own.ndim == 2:
                return np.asarray(own[users] @ items.T)
            out = np.empty((len(users), len(items)), dtype=items.dtype)
            for party, version in enumerate(own):
                columns = np.flatnonzero(model.arrays["owner"] == party)
                out[:, columns] = version[users] @ items[columns].T
            return out

    def train_devices(
        self, calls: UploadRequest, steps: int, initializer: Initializer, with_users: bool = True
    ) -> tuple[Floats, Floats]:
        """Returns user and item embeddings of n parties of one user each, after ``steps`` gradient
        steps.

        ``initializer``: gives the initial embeddings of a block of parties.
        ``with_users``: whether user embeddings move, too.

        The results have shapes (n, p) and (n, m, p), for m items and p factors. Parties are trained
        in blocks of four million embedding entries.
        """
        full, p = check_ratings(calls.interactions, self.bound), self.factors
        n, m = full.shape
        users, items = np.empty((n, p), np.float32), np.empty((n, m, p), np.float32)
        for block in iter_party_blocks(n, m * p):
            own, part = calls.streams.take(block), sparse.csr_array(full[block])
            first, table = initializer(block, part, own)
            part = self.trim_devices(part, own)
            scale = np.broadcast_to(self.get_step_scale(1, m, np.diff(part.indptr)), len(block))
            users[block], after = self.make_descent(1).train_devices(
                first,
                table.reshape(-1, p),
                m * np.arange(len(block) + 1),
                part,
                own,
                user_scale=scale * with_users,
                item_scale=scale,
                count=steps,
            )
            items[block] = after.reshape(-1, m, p)
        return users, items

    def trim_devices(self, ratings: sparse.csr_array, streams: Streams) -> sparse.csr_array:
        """Returns the ratings of parties of one user each, trimmed to at most ``max_ratings`` per
        user.
        """
        if self.max_ratings is None:
            return ratings
        return trim_ratings(ratings, self.max_ratings, streams.fold_in(_TRIM))

    def make_parties(
        self, interactions: Interactions, shared: Floats | None, rng: Generator
    ) -> list[Party]:
        """Divides the data among the parties, and gives each party its own random generator.

        ``shared`` holds the initial shared embeddings, to which user embeddings may be fitted.
        """
        table = check_ratings(interactions, self.bound)
        dealt = self.division.deal(self, interactions, rng)
        total, made = sum(len(ids) for ids in dealt), []
        for ids in dealt:
            own = Generator(np.random.SFC64(int(rng.integers(1 << 63))))
            full = ratings = self.division.select_ratings(table, ids)
            n, m = full.shape
            if self.max_ratings is not None:
                ratings = trim_ratings(full, self.max_ratings, Streams.spawn(own, n))
            rows = init_embeddings(own.random((len(ids), self.factors)), self.bound, self.spread)
            if self.n_fit_steps and shared is not None:
                rows = fit_user_embeddings(full, shared, bound=self.bound, steps=self.n_fit_steps)
            step_scale = float(self.get_step_scale(n, m, ratings.nnz))
            made.append(Party(ids, full, ratings, rows, own, len(ids) / total, step_scale))
        return made


def get_party_sizes(n_users: int, parties: int) -> tuple[int, ...]:
    """Returns the smallest and largest number of users of a party, if users are dealt in equal
    shares.
    """
    count = min(parties, n_users)
    return n_users // count, -(-n_users // count)


def get_sampling_shares(sizes: Sequence[int], rate: float) -> tuple[float, float]:
    """Returns the smallest and largest share of a party's rows (users) that a step samples.

    ``sizes`` are the parties' numbers of rows. The number of sampled rows is an integer, so shares
    differ.
    """
    shares = [get_batch_size(size, rate) / size for size in sizes]
    return min(shares), max(shares)


def make_claim_scope(
    unit: str, vantage: Vantage = Vantage.SERVER, adjacency: Adjacency = Adjacency.ADD_REMOVE
) -> Scope:
    """Returns the scope of the paper's claims for a ``unit`` ("rating" or "user"), over the whole
    training.
    """
    return Scope(unit=Unit(unit), adjacency=adjacency, vantage=vantage, horizon=Horizon.TRAINING)
