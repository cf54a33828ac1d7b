"""Base class of matrix factorization between parties that hold some users or some items each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import numpy as np
from numpy.random import Generator
from scipy import sparse

from fedrec_auditor.accountants import statements
from fedrec_auditor.accountants.statements import Adjacency, Horizon, Scope, Unit, Vantage
from fedrec_auditor.targets.components import Floats, Ints
from fedrec_auditor.targets.compute import Machine, limit_to_one_thread
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.papers.federated_mf.systems.parts import sgd_mf
from fedrec_auditor.targets.papers.federated_mf.systems.parts.descent import (
    DataDivision,
    GradientDescent,
)
from fedrec_auditor.targets.settings import BestRating, Count, Positive, Probability, Share
from fedrec_auditor.targets.streams import Streams
from fedrec_auditor.targets.systems.base import HoldOut, Model, UtilityTest
from fedrec_auditor.targets.systems.system import Messages, System, TrainingRounds, UploadRequest
from fedrec_auditor.targets.transcript import PublicInfo

_TRIM_KEY = 101  # key of the random stream that trims the ratings of a party of one user
# Function that returns the initial user and item embeddings of some parties of one user each, from
# the parties' indices, ratings and random streams.
TableInitializer = Callable[[Ints, sparse.csr_array, Streams], tuple[Floats, Floats]]


@dataclass(slots=True)
class Party:
    """State of one party during a training.

    The members of a party are its users (horizontal setting) or its items (vertical setting).

    ``member_ids``: indices of the members in the whole table of ratings.
    ``all_ratings``: all ratings of the members, users by items.
    ``trimmed_ratings``: ratings of the members after trimming to a maximum number per user, users
        by items.
    ``own_embeddings``: embeddings of the members, which the party keeps, one row per member.
    ``rng``: the party's random generator.
    ``member_share``: number of the members divided by the number of all users or items.
    ``step_size_factor``: factor on the learning rate: one over the mean number of trimmed ratings
        per user, or over a guess of this mean.
    """

    # In 1/(m tau), a user rated the share tau of the m items.

    member_ids: Ints
    all_ratings: sparse.csr_array
    trimmed_ratings: sparse.csr_array
    own_embeddings: Floats
    rng: Generator
    member_share: float
    step_size_factor: float

    def train(
        self,
        descent: GradientDescent,
        tables: tuple[Floats, Floats],
        scales: tuple[float, float],
        first_step: int,
        count: int,
    ) -> tuple[Floats, Floats]:
        """Takes ``count`` gradient steps on the party's ratings; returns user and item embeddings.

        ``descent``: settings of the steps, with clipping and noise.
        ``tables``: user and item embeddings before the steps.
        ``scales``: factors on the learning rate, for steps on user and on item embeddings; at 0 the
            embeddings do not move.
        ``first_step``: index of the first of these steps in the whole training, which determines
            the learning rate.
        """
        return descent.train(*tables, self.trimmed_ratings, self.rng, *scales, count, first_step)


@dataclass(frozen=True, slots=True)
class StepSampling:
    """Sampling of the ratings of a gradient step, and source of the divisor of its gradient sum.

    ``unit``: "row" for a fixed number of rows (users) per step; "rating" or "user" if each rating
        or user is sampled independently.
    ``guessed_rated_share``: public guess of the share of pairs of a user and an item that have a
        rating. The divisor follows from this guess or, if None, from the party's number of ratings.
    """

    unit: str = "row"
    guessed_rated_share: float | None = None


class Exchange(ABC):
    """Base class of the protocols by which parties and server exchange embeddings.

    ``is_single_round``: whether a training yields one round only, because parties send nothing
        between their local steps.
    ``n_tuning_steps``: number of gradient steps that a party takes alone at the end of the
        training.
    """

    is_single_round: ClassVar[bool] = False
    n_tuning_steps: int = 0

    @abstractmethod
    def train(self, mf: PartyMf, interactions: Interactions, rng: Generator) -> TrainingRounds:
        """Runs the training of the system ``mf``; yields one round at a time, and returns the
        result.
        """

    def make_messages(self, mf: PartyMf, request: UploadRequest) -> Messages:
        """Returns each party's message of the first round, for parties that hold one user each.

        The messages are arrays by name; the result is empty if parties send nothing.
        """
        return {}


@dataclass(frozen=True, kw_only=True)
class PartyMf(System):
    """Base class of systems with T rounds of T' gradient steps in every party.

    ``factors``: number p of entries of an embedding, as in the paper (sections 4.3, 5.3).
    ``rounds``: number T of rounds, as in the paper.
    ``local_steps``: number T' of steps of a party per round, as in the paper.
    ``rate``: share of the rows (users) that a step samples, as in the paper.
    ``parties``: number s of parties, as in the paper.
    ``bound``: R, the largest possible rating.
    ``learning_rate``: initial learning rate g, which the paper does not print. A step is g times
        the gradient sum, divided by the mean number of ratings per user.
    ``spread``: width of the distribution of initial embeddings, from 0 (all equal) to 1.
    ``data_division``: division of the data among the parties, by items or by users.

    Some subclasses have further settings:

    ``split``: rule that divides the items among parties, "random" or "category" (by genre).
    ``tuning``: number of gradient steps that a party takes alone at the end of the training.
    ``tuning_rate``: learning rate of the steps that a party takes alone.

    A party's ratings are trimmed once, before the training.
    """

    # A subclass defines the division of the data among the parties (``data_division``), the
    # protocol of messages (``exchange``), the gradient steps and noise of a party
    # (``make_descent``), and the number of steps that fit initial user embeddings
    # (``n_fit_steps``).
    #
    # The learning rates of all systems were chosen by MSE on MovieLens-100K, on the split on which
    # utility is reported.

    factors: Annotated[Count, "p, entries of a user's and of an item's vector"] = 20
    rounds: Annotated[Count, "T, rounds per training"] = 100
    local_steps: Annotated[Count, "T', steps of a party per round"] = 10
    rate: Annotated[Share, "share of the rows that are sampled in a step"] = 0.01
    parties: Annotated[Count, "s, number of parties"] = 10
    bound: BestRating = 5.0
    learning_rate: Annotated[Positive, "g, learning rate"] = 0.05
    spread: Annotated[Probability, "spread of the first embeddings; 0: all equal"] = 1.0

    data_division: ClassVar[DataDivision]
    evaluation = UtilityTest(split=HoldOut.HELD_OUT_RATINGS, cutoffs=())

    @property
    @abstractmethod
    def exchange(self) -> Exchange:
        """Protocol by which parties and server exchange embeddings."""

    @property
    def steps(self) -> int:
        """Number of gradient steps in the rounds of a training: rounds times local steps."""
        return self.rounds * self.local_steps

    @property
    def max_ratings(self) -> int | None:
        """Maximum number of ratings per user that a party uses; None for all ratings."""
        return None

    @property
    def sampling(self) -> StepSampling:
        """Sampling of the ratings of a step, and the divisor of the step's gradient sum."""
        return StepSampling()

    @property
    def sizes(self) -> statements.Sizes:
        """Number of rounds, and maximum number of ratings of a user.

        The maximum is None if a user's ratings may be at several parties, or are not trimmed.
        """
        ratings = self.max_ratings if self.data_division.is_split_by_user else None
        return statements.Sizes(rounds=self.rounds, ratings=ratings)

    @property
    def n_fit_steps(self) -> int:
        """Number of steps that fit user embeddings to the initial item embeddings; by default 0."""
        return 0

    @property
    def n_training_steps(self) -> int:
        """Number of rounds that ``train`` yields: ``rounds``, or 1 if parties train alone."""
        return 1 if self.exchange.is_single_round else self.rounds

    def get_training_cost_args(self, interactions: Interactions) -> dict[str, float]:
        """Returns keyword arguments of ``TrainingCost.estimate``, which estimates the cost of a
        training.

        Each party is assumed to send the larger of the user and the item table, once per round. A
        step passes over the share ``rate`` of the ratings.
        """
        numbers = self.factors * max(interactions.n_users, interactions.n_items)
        senders = 0 if self.is_central else self.data_division.count_parties(self, interactions)
        return {
            "senders_per_round": senders,
            "width": self.factors,
            "n_message_values": numbers,
            "message_bytes": 4 * numbers,
            "n_other_memory_values": self.factors * self.parties,
            "passes": (self.steps + self.n_fit_steps + self.exchange.n_tuning_steps) * self.rate,
        }

    def make_descent(self, n_users: int, with_users: bool = True) -> GradientDescent:
        """Returns the gradient steps of a party of ``n_users`` users.

        By default the steps have neither noise nor clipping.

        ``with_users``: whether the steps move user embeddings too, not item embeddings alone.
        """
        return GradientDescent(
            learning_rate=self.learning_rate,
            n_steps=self.steps,
            sampling_rate=self.rate,
            sampling_unit=self.sampling.unit,
        )

    def get_step_scale(self, n_users: int, n_items: int, n_ratings: int | Ints) -> float | Floats:
        """Returns the factor on a party's steps: one over the mean number of ratings per user.

        ``n_users``, ``n_items``: numbers of users and items of the party.
        ``n_ratings``: number of ratings of the party, or an array of such numbers.

        If ``sampling.guessed_rated_share`` is set, ``n_ratings`` is not used. The mean is then this
        share times ``n_items``, but at least 1 and at most ``max_ratings``.
        """
        if self.sampling.guessed_rated_share is None:
            return self.data_division.get_step_scale(n_users, n_ratings)
        guess = max(1.0, self.sampling.guessed_rated_share * n_items)
        return 1.0 / (guess if self.max_ratings is None else min(guess, self.max_ratings))

    def train(self, interactions: Interactions, rng: Generator, compute: Machine) -> TrainingRounds:
        """Runs the training by the protocol ``self.exchange``; yields one round at a time."""
        return self.exchange.train(self, interactions, rng)

    def get_public_info(self, interactions: Interactions) -> PublicInfo:
        """Returns what the adversary knows of a run; the senders are the parties."""
        n_silos = self.data_division.count_parties(self, interactions)
        return replace(super().get_public_info(interactions), n_silos=n_silos)

    def make_messages(self, request: UploadRequest) -> Messages:
        """Returns each party's message of the first round, for parties that hold one user each.

        Each party has embeddings of all items. All randomness of a message comes from its party's
        own random stream.
        """
        return self.exchange.make_messages(self, request)

    def score(self, model: Model, interactions: Interactions, users: Ints) -> Floats:
        """Returns predicted ratings u.v of ``users``, shape (len(users), n_items).

        u and v are the embeddings of user and item. If parties have different tables, an array of
        the model names the party whose table is used:

        - "home": the party that holds the user, whose item table has v;
        - "owner": the party that holds the item, whose user table has u.
        """
        own, items = model.arrays["users"], model.arrays["items"]
        with limit_to_one_thread():
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
        self, request: UploadRequest, steps: int, init: TableInitializer, with_users: bool = True
    ) -> tuple[Floats, Floats]:
        """Trains n parties of one user each by ``steps`` steps; returns user and item embeddings.

        ``request``: the requested messages, one party per message.
        ``steps``: number of gradient steps.
        ``init``: function that returns the initial embeddings of a block of parties.
        ``with_users``: whether user embeddings move, besides item embeddings.

        The results have shapes (n, p) and (n, m, p), for m items and p factors.
        """
        # Parties are trained in blocks of about four million embedding entries.
        full, p = sgd_mf.check_ratings(request.interactions, self.bound), self.factors
        n, m = full.shape
        users, items = np.empty((n, p), np.float32), np.empty((n, m, p), np.float32)
        descent = self.make_descent(1)
        for block in sgd_mf.iter_party_blocks(n, m * p):
            own, part = request.streams.take(block), sparse.csr_array(full[block])
            first, table = init(block, part, own)
            part = self.trim_device_ratings(part, own)
            scale = np.broadcast_to(self.get_step_scale(1, m, np.diff(part.indptr)), len(block))
            scales = {"user_scale": scale * with_users, "item_scale": scale}
            rows, starts = table.reshape(-1, p), m * np.arange(len(block) + 1)
            users[block], after = descent.train_devices(
                first, rows, starts, part, own, **scales, count=steps
            )
            items[block] = after.reshape(-1, m, p)
        return users, items

    def trim_device_ratings(self, ratings: sparse.csr_array, streams: Streams) -> sparse.csr_array:
        """Draws at most ``max_ratings`` ratings per user, for parties of one user each.

        ``ratings`` has one row per party, and ``streams`` one random stream per party.
        """
        if self.max_ratings is None:
            return ratings
        return sgd_mf.trim_ratings(ratings, self.max_ratings, streams.derive(_TRIM_KEY))

    def make_parties(
        self, interactions: Interactions, shared: Floats | None, rng: Generator
    ) -> list[Party]:
        """Divides the data among the parties; returns the parties' states before the training.

        ``shared``: initial item embeddings, to which user embeddings are fitted if ``n_fit_steps``
            is above 0; None without shared item embeddings.
        ``rng``: source of the division, and of one random generator per party.
        """
        table = sgd_mf.check_ratings(interactions, self.bound)
        dealt = self.data_division.divide_members(self, interactions, rng)
        total, made = sum(len(ids) for ids in dealt), []
        for ids in dealt:
            own = Generator(np.random.SFC64(int(rng.integers(1 << 63))))
            full = ratings = self.data_division.select_ratings(table, ids)
            n, m = full.shape
            if self.max_ratings is not None:
                ratings = sgd_mf.trim_ratings(full, self.max_ratings, Streams.spawn(own, n))
            uniform = own.random((len(ids), self.factors))
            rows = sgd_mf.init_embeddings(uniform, self.bound, self.spread)
            if (steps := self.n_fit_steps) and shared is not None:
                rows = sgd_mf.fit_user_embeddings(full, shared, bound=self.bound, steps=steps)
            step_scale = float(self.get_step_scale(n, m, ratings.nnz))
            made.append(Party(ids, full, ratings, rows, own, len(ids) / total, step_scale))
        return made


def get_size_range(n_users: int, parties: int) -> tuple[int, ...]:
    """Returns the smallest and the largest number of users of a party, if ``n_users`` users are
    divided equally among ``parties`` parties.
    """
    count = min(parties, n_users)
    return n_users // count, -(-n_users // count)


def get_sampling_range(sizes: Sequence[int], rate: float) -> tuple[float, float]:
    """Returns the smallest and largest share of a party's rows (users) that a step samples.

    ``sizes``: number of rows of each party.
    ``rate``: intended share. The shares differ from ``rate``, because the number of sampled rows is
        rounded to an integer.
    """
    shares = [sgd_mf.get_batch_size(size, rate) / size for size in sizes]
    return min(shares), max(shares)


def make_claim_scope(
    unit: str, vantage: Vantage = Vantage.SERVER, adjacency: Adjacency = Adjacency.ADD_REMOVE
) -> Scope:
    """Returns the scope of the paper's claims for a ``unit``, "rating" or "user".

    The horizon is the whole training.
    """
    return Scope(unit=Unit(unit), adjacency=adjacency, vantage=vantage, horizon=Horizon.TRAINING)
