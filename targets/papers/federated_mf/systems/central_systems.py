"""Baselines of the federated-MF paper: DP-SGD, Langevin dynamics, objective perturbation, GD-DR."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Annotated, Any, Literal

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy import sparse

from fedrec_auditor.accountants import statements
from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.events import dp
from fedrec_auditor.accountants.statements import Adjacency, Horizon, Scope, Unit, Vantage
from fedrec_auditor.targets import settings
from fedrec_auditor.targets.components import Component, Dense, Floats, Ints, Payload, Reports
from fedrec_auditor.targets.compute import Machine, limit_to_one_thread
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.mechanisms.parts.bases import MAX_EPSILON, MIN_EPSILON, clip_norm
from fedrec_auditor.targets.mechanisms.report_mechanisms import OneCoordinate
from fedrec_auditor.targets.papers.federated_mf.systems.parts import descent, sgd_mf
from fedrec_auditor.targets.papers.federated_mf.systems.parts.exchange import EmbeddingRelease
from fedrec_auditor.targets.papers.federated_mf.systems.parts.local_mf import LocalMf
from fedrec_auditor.targets.papers.federated_mf.systems.parts.noise import NoisyMf, UserItemNoise
from fedrec_auditor.targets.settings import BestRating, Count, Epsilon, NonNegative, Positive, Range
from fedrec_auditor.targets.streams import Streams
from fedrec_auditor.targets.systems import base, system
from fedrec_auditor.targets.systems.base import DesignedPair, HoldOut, Model, Population
from fedrec_auditor.targets.systems.system import Messages, System, TrainingRounds, UploadRequest
from fedrec_auditor.targets.systems.system import get_broadcast_array as table
from fedrec_auditor.targets.transcript import Broadcast, PublicInfo, Round, Uploads


@dataclass(frozen=True, kw_only=True)
class DpSgdMf(NoisyMf):
    """Central matrix factorization by DP-SGD: gradients are clipped, not embeddings.

    One trusted party trains user and item embeddings by DP-SGD (Abadi et al. 2016), and publishes
    them. The system is "gradient clipping" in Figure 4 (section 4.3).

    ``parties``: number of parties, always 1: the party holds all data.
    ``split``: rule that divides items among parties; not used with a single party.
    ``learning_rate``: initial learning rate g; the paper does not print it.
    ``clip``: C, largest norm of a gradient.
    ``noise_multiplier``: z, deviation of the noise divided by the sensitivity C.
    ``data_division``: division of the data among the parties, by items.
    ``exchange``: protocol in which parties publish their embeddings once, after the training.
    """

    parties: int = 1
    split: Literal["random", "category"] = "random"
    learning_rate: float = 0.03
    clip: Annotated[Positive, "C, the largest norm of a gradient"] = 10.0
    noise_multiplier: Annotated[NonNegative, "z, noise deviation over sensitivity"] = 1.8

    tuned_values = MappingProxyType({"spread": 0.1, "rate": 0.1, "learning_rate": 0.1})
    data_division = descent.ItemSplit()
    exchange = EmbeddingRelease()
    is_single_party = True

    def make_noise(self, n_users: int, with_users: bool = True) -> UserItemNoise:
        """Returns the Gaussian noise on gradients that are scaled to a norm of at most C.

        The noise has deviation z C; z is ``noise_multiplier``, and C is ``clip``. ``n_users`` and
        ``with_users`` are not used.
        """
        return UserItemNoise.for_scaled_gradients(self.noise_multiplier, self.clip, self.unit)


@dataclass(frozen=True, kw_only=True)
class DpSgld(NoisyMf):
    """Central matrix factorization by noisy stochastic gradient Langevin dynamics.

    The baseline DP-SGLD (Liu, Wang, Smola, RecSys 2015) computes its noise from the claimed epsilon
    by advanced composition. The formula is assumed, from Algorithm 2 of Wang, Fienberg and Smola
    2015. The noise on the gradient sum of a batch has variance

        128 K (n'/n)^2 L^2 ln(5 K n'/(2 delta)) ln(2/delta) / epsilon^2,

    for K steps on batches of n' of n rows, and the delta of the claim. L is the sensitivity to one
    rating, or to all ratings of a user if the unit is the user. A step has this noise, or that of
    Langevin dynamics if it is larger.

    Errors are clipped to [-R, R], and embeddings to norm^2 <= R, for the largest rating R.

    ``parties``: number of parties, always 1: the party holds all data.
    ``split``: rule that divides items among parties; not used with a single party.
    ``epsilon``: claimed epsilon, from which the noise is computed.
    ``learning_rate``: initial learning rate g; the paper does not print it.
    ``data_division``: division of the data among the parties, by items.
    ``exchange``: protocol in which parties publish their embeddings once, after the training.
    """

    # The federated-MF paper states that DP-SGLD bounds the errors of predictions, and that advanced
    # composition needs more noise than the moments accountant. L is the Lipschitz constant of
    # Algorithm 2, for a user with ``trim`` ratings if the unit is the user. This L is as large as
    # with the clipping of equation 6, although entries may have any sign here. The prior is flat
    # within the balls of norm^2 <= R.
    #
    # The noise is about 30 times that of the moments accountant. Even without amplification by
    # sampling, the proved epsilon is little more than the claim.

    parties: int = 1
    split: Literal["random", "category"] = "random"
    epsilon: Annotated[float, Range("[1e-9, 1e6]")] = 1.0
    learning_rate: float = 0.0001

    tuned_values = MappingProxyType({"spread": 0.1, "rate": 0.1, "learning_rate": 0.02})
    data_division = descent.ItemSplit()
    exchange = EmbeddingRelease()
    is_single_party = True
    noise_setting = settings.NoiseSetting(budget_names=("epsilon",), noiseless_value=1e6)

    def make_noise(self, n_users: int, with_users: bool = True) -> UserItemNoise:
        """Returns the Gaussian noise on gradients with clipped errors, of the variance in the class
        docstring.

        ``n_users``: number n of the party's users (rows).
        ``with_users``: whether the sensitivity L covers gradients with respect to user embeddings.
        """
        clipping = descent.Clipping.make_error_clip(self.bound)
        drawn = sgd_mf.get_batch_size(n_users, self.rate)
        logs = math.log(2.5 * self.steps * drawn / self.delta) * math.log(2.0 / self.delta)
        z = drawn / n_users * math.sqrt(128.0 * self.steps * logs) / self.epsilon
        sigma = z * clipping.get_sensitivity(self.max_ratings or 1, with_users)
        return UserItemNoise(noise_multiplier=z, sigma=sigma, clipping=clipping)

    def make_descent(self, n_users: int, with_users: bool = True) -> descent.GradientDescent:
        """Returns the gradient steps of a party, with at least the noise of Langevin dynamics.

        ``n_users``: number of the party's users.
        ``with_users``: whether the steps move user embeddings too, not item embeddings alone.
        """
        return replace(super().make_descent(n_users, with_users), is_langevin=True)


@dataclass(frozen=True, kw_only=True)
class ObjPertb(System):
    """Central matrix factorization with a perturbed objective, which publishes item embeddings.

    ObjPertb (Hua, Xia, Zhong, IJCAI 2015) protects the value of one rating. The curator factorizes
    the ratings by alternating least squares, and keeps the user embeddings u, clipped to |u| <= 1.
    For every item it publishes the embedding v that minimizes

        sum over the item's ratings x of (x - u.v)^2 + lambda |v|^2 + b.v.

    The vector b is random, with density proportional to exp(-epsilon |b| / (2R)), for the largest
    rating R. If the unit is the user, epsilon is divided by the maximum number of a user's ratings.
    There are two versions:

    - As published, the method has no proof: user embeddings are computed from the same ratings
      without noise.
    - Repaired, user embeddings are random and public. Epsilon is exact for the value of a rating
      that both neighbouring inputs contain. No epsilon holds for the presence of a rating.

    The settings and the trusted curator are assumed: the federated-MF paper (section 4.3, Figure 5)
    does not describe the method.

    ``factors``: number p of entries of an embedding.
    ``bound``: R, upper bound of all ratings: the largest possible rating.
    ``epsilon``: claimed epsilon of a rating's value, or of all values of a user.
    ``regularization``: lambda, weight of squared norms in the least squares.
    ``sweeps``: number of passes of the least squares; each solves for all users, then for all
        items.
    ``unit``: data that epsilon protects, the value of a "rating" or all values of a "user".
    ``trim``: maximum number of ratings of a user; not used if the unit is the rating.
    ``as_published``: whether the version is the published one; otherwise the repaired one.
    ``evaluation``: the paper's protocol for measuring utility.
    """

    # The density of b: a change of a rating's value changes the gradient of the objective by at
    # most 2R|u|. This suffices only if user embeddings are fixed. In the repaired version they are,
    # and b is a linear function of v, whose slope does not depend on the ratings' values. The
    # presence of a rating changes the gradient by 2u(x - u.v), which grows with v.

    factors: settings.EmbeddingSize = 20
    bound: BestRating = 5.0
    epsilon: Annotated[Epsilon, "epsilon of a rating's value, or of all values of a user"] = 1.0
    regularization: Annotated[Positive, "lambda"] = 10.0
    sweeps: Annotated[Count, "passes; each solves all users, then all items"] = 10
    unit: Annotated[Literal["rating", "user"], "owner of the values that epsilon hides"] = "rating"
    trim: Annotated[Count, "maximum ratings of a user if the unit is the user"] = 10
    as_published: Annotated[bool, "U of the same ratings; else random and public"] = True

    evaluation = base.UtilityTest(split=HoldOut.HELD_OUT_RATINGS, cutoffs=())
    noise_setting = settings.NoiseSetting(budget_names=("epsilon",), noiseless_value=1e6)

    def get_event(self, scope: Scope, population: Population) -> dp.DpEvent:
        """Returns the accounting event of the published item embeddings.

        If ``as_published`` is false, the change of one rating's value has an event with a finite
        epsilon at delta 0. In all other cases the result is ``NonPrivateDpEvent``.
        """
        value = scope.unit is Unit.RATING and scope.adjacency is Adjacency.REPLACE
        if not self.as_published and value and scope.horizon is not Horizon.REPORT:
            return dp.PureDpEvent(self._rating_epsilon)
        return dp.NonPrivateDpEvent()

    def get_training_cost_args(self, interactions: Interactions) -> dict[str, float]:
        """Returns keyword arguments of ``TrainingCost.estimate``, for the cost of a training.

        ``senders_per_round``: number of messages: 1, the published item table.
        ``width``: number of entries per row of the item table.
        ``message_bytes``: size of the item table.
        ``passes``: passes over the ratings (``sweeps``).
        """
        args = {"senders_per_round": 1, "width": self.factors, "passes": self.sweeps}
        return {**args, "message_bytes": 4 * self.factors * interactions.n_items}

    def train(self, interactions: Interactions, rng: Generator, compute: Machine) -> TrainingRounds:
        """Factorizes the ratings, perturbs the objective and publishes the items in one round.

        Memory is (n + m) p^2 numbers for n users, m items and p factors, for the normal equations.
        """
        streams = Streams.spawn(rng, 1)
        ratings = sgd_mf.check_ratings(interactions, self.bound)
        if self.unit == "user":
            user_streams = Streams.spawn(rng, interactions.n_users)
            ratings = sgd_mf.trim_ratings(ratings, self.trim, user_streams)
        users, items = self._publish(ratings, streams)
        uploads = Uploads(np.arange(1), {"items": Dense(items[None], Payload.MODEL)})
        yield Round(broadcast=None, uploads=uploads)
        return system.TrainingResult({"items": items}, {"users": users, "items": items})

    def get_public_info(self, interactions: Interactions) -> PublicInfo:
        """Returns what the adversary knows of a run; the only sender is the curator."""
        return replace(super().get_public_info(interactions), n_silos=1)

    def make_messages(self, request: UploadRequest) -> Messages:
        """Returns the item embeddings that a curator would publish if it had one user's data only.

        A message is the array "items" (m, p), for m items and p factors.
        """
        owners, streams, m = request.sender_rows, request.streams, request.profiles.n_items
        ratings = sgd_mf.check_ratings(request.interactions, self.bound)
        if self.unit == "user":
            ratings = sgd_mf.trim_ratings(ratings, self.trim, streams.derive(3))
        sent = np.empty((len(owners), m, self.factors), dtype=np.float32)
        for block in sgd_mf.iter_party_blocks(len(owners), m * self.factors**2):
            own = sparse.csr_array(ratings[block])
            shift = m * np.repeat(np.arange(len(block)), np.diff(own.indptr))
            entries = (own.data, own.indices + shift, own.indptr)
            wide = sparse.csr_array(entries, shape=(len(block), m * len(block)))
            _, items = self._publish(wide, streams.take(block))
            sent[block] = items.reshape(len(block), m, self.factors)
        return {"items": Dense(sent, Payload.MODEL)}

    def score(self, model: Model, interactions: Interactions, users: Ints) -> Floats:
        """Returns predicted ratings u.v of ``users``, shape (len(users), n_items).

        The user embeddings u are those that the curator keeps.
        """
        with limit_to_one_thread():
            return np.asarray(model.arrays["users"][users] @ model.arrays["items"].T)

    @property
    def _rating_epsilon(self) -> float:
        """Epsilon per rating: ``epsilon``, divided by ``trim`` if the unit is the user."""
        return self.epsilon / self.trim if self.unit == "user" else self.epsilon

    def _publish(
        self, ratings: sparse.csr_array, streams: Streams
    ) -> tuple[Floats, NDArray[np.float32]]:
        """Returns user embeddings and perturbed item embeddings of several curators.

        ``ratings``: users by items; each curator has its own block of equally many columns.
        ``streams``: one random stream per curator.
        """
        m, p = ratings.shape[1], self.factors
        ridge = self.regularization * np.eye(p)
        users = self._fit_users(ratings, ridge, streams.derive(0))
        direction = _draw_directions(streams.derive(1), m, p)
        # The norm has density r^(p-1) exp(-epsilon r/2R): it is a sum of p exponentials.
        steps = -np.log(streams.derive(2).draw_uniform(m // len(streams) * p)).reshape(m, p)
        noise = direction * (2.0 * self.bound / self._rating_epsilon * steps.sum(axis=1))[:, None]
        items = _solve_least_squares(ratings.T.tocsr(), users, ridge, noise)
        return users.astype(np.float32), items.astype(np.float32)

    def _fit_users(
        self, ratings: sparse.csr_array, ridge: NDArray[np.float64], streams: Streams
    ) -> NDArray[np.float64]:
        """Returns user embeddings fitted to the private ratings, or random ones if repaired."""
        (n, m), p = ratings.shape, self.factors
        if not self.as_published:
            return _draw_directions(streams, n, p)
        items = streams.draw_normal(m // len(streams) * p).reshape(m, p)
        for _ in range(self.sweeps):
            users = clip_norm(_solve_least_squares(ratings, items, ridge), 1.0)
            items = _solve_least_squares(ratings.T.tocsr(), users, ridge)
        return users


def _draw_directions(streams: Streams, count: int, dimension: int) -> NDArray[np.float64]:
    """Draws random unit vectors, (count, dimension)."""
    drawn = streams.draw_normal(count // len(streams) * dimension).reshape(count, dimension)
    return np.asarray(drawn / np.sqrt(np.square(drawn).sum(axis=1, keepdims=True)))


def _solve_least_squares(
    ratings: sparse.csr_array,
    vectors: NDArray[np.float64],
    ridge: NDArray[np.float64],
    linear: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """Returns for each row of ``ratings`` the vector w that minimizes sum (x - w.o)^2 + w ridge w +
    linear.w.

    The sum is over the row's ratings x; o is the row of ``vectors`` for the column of x.
    """
    p = vectors.shape[1]
    entries = (np.ones(ratings.nnz), ratings.indices, ratings.indptr)
    seen = sparse.csr_array(entries, shape=ratings.shape)
    outer = (vectors[:, :, None] * vectors[:, None, :]).reshape(-1, p * p)
    squares = np.asarray(seen @ outer).reshape(-1, p, p)
    right = ratings.astype(np.float64) @ vectors
    if linear is not None:
        right = right - linear / 2.0
    return np.asarray(np.linalg.solve(squares + ridge, right[:, :, None])[:, :, 0])


@dataclass(frozen=True, kw_only=True)
class GdDr(system.ReportingSystem, LocalMf):
    """Local matrix factorization by one-bit reports of a gradient in fewer dimensions.

    Private-GD-DR (Shin, Kim, Shin, Xiao, TKDE 2018) is the paper's local baseline. The server draws
    a random matrix Phi (rows x n_items), with entries N(0, 1/rows). Each of T rounds has three
    steps:

    1. A device computes Phi times its item gradient. For a rating x of item j, row j of the
       gradient is 2 (u.v - x) u, with user embedding u and item embedding v.
    2. The device clips the product to [-1, 1], and reports one random entry as a randomized sign
       with epsilon/T. Then it takes a step on u.
    3. The server descends along Phi^T times the mean report.

    The paper states no settings except T = 10 (section 6.3). The split of epsilon, the number of
    rows and the use of Phi^T are assumed. Embeddings are constrained by equation 6.

    ``epsilon``: claimed epsilon of a user over the training.
    ``rows``: number of rows of the random matrix Phi.
    ``learning_rate``: initial learning rate of the server for the item embeddings.
    """

    # Phi^T times the mean report is an unbiased estimate of the mean gradient unless entries were
    # clipped. Embeddings are not regularized.

    epsilon: Annotated[Epsilon, "epsilon of a user over the training"] = 10.0
    rows: Annotated[Count, "rows of the random matrix Phi"] = 50
    learning_rate: float = 0.001

    tuned_values = MappingProxyType({"spread": 0.1})
    noise_setting = settings.NoiseSetting(budget_names=("epsilon",), noiseless_value=700.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not MIN_EPSILON <= self.report_epsilon <= MAX_EPSILON:
            raise InputError(
                f"Expected epsilon / rounds from {MIN_EPSILON:g} to {MAX_EPSILON:g}, got epsilon="
                f"{self.epsilon!r} with rounds={self.rounds}. Change epsilon or rounds."
            )

    def get_training_cost_args(self, interactions: Interactions) -> dict[str, float]:
        """Returns keyword arguments of ``TrainingCost.estimate``, for the cost of a training.

        A message is one report of 5 bytes. Memory includes two tables of the size of the random
        matrix Phi, ``rows`` x n_items.
        """
        args = {"message_bytes": 5, "n_other_memory_values": 2 * self.rows * interactions.n_items}
        return super().get_training_cost_args(interactions) | args

    @property
    def report_epsilon(self) -> float:
        """Epsilon of one report: ``epsilon`` divided by the number of rounds."""
        return self.epsilon / self.rounds

    def make_randomizer(self, n_items: int = 0) -> OneCoordinate:
        """Returns the randomizer of one report: a randomized sign of one random gradient entry.

        The gradient is the random matrix Phi times the item gradient, of shape (rows, factors).
        ``n_items`` is not used.
        """
        return OneCoordinate(self.report_epsilon, self.rows * self.factors)

    def get_public_info(self, interactions: Interactions) -> PublicInfo:
        """Returns what the adversary knows of a run, with the distribution of a report's sign."""
        channel = system.ReportDistribution(self.report_epsilon)
        return replace(super().get_public_info(interactions), noise_channel=channel)

    def design_pairs(self) -> tuple[DesignedPair, ...]:
        """Returns one pair of worst-case users, with one rating each, of different items.

        In the matrix Phi, which a malicious server chooses, the columns of the two items have
        opposite signs.
        """
        game = replace(self, factors=1, rows=1, rounds=1, epsilon=self.report_epsilon)
        profiles = Interactions.create(np.eye(2) * self.bound, name="game")
        # Gradients are 2 R u. The weights make them exceed 1 for every R.
        weight = max(1.0, 2.0 / (self.bound * math.sqrt(self.bound / 2.0)))
        projection = np.array([[-weight, weight]], np.float32)
        pair = DesignedPair(
            target=game,
            profiles=profiles,
            broadcast={"items": np.zeros((2, 1), np.float32), "projection": projection},
            scope=statements.make_local_scope(Unit.REPORT, Vantage.SERVER, Horizon.REPORT),
            world_names=("item 0 rated", "item 1 rated"),
        )
        return (pair,)

    def run_devices(
        self, ratings: sparse.csr_array, users: Floats, model: Broadcast, streams: Streams
    ) -> tuple[dict[str, Component], Floats]:
        """Runs one round on all devices; returns their reports and their new user embeddings.

        The reports are the array "signs". A device takes one step on its user embedding; the result
        has one row per user.
        """
        items, phi = np.asarray(model["items"]), np.asarray(model["projection"])
        randomizer, n = self.make_randomizer(), ratings.shape[0]
        draws = streams.draw_uniform(3)
        index = randomizer.map_to_coordinates(draws[:, 0])
        entry, factor = np.divmod(index, self.factors)
        rows = np.repeat(np.arange(n), np.diff(ratings.indptr))
        error = np.einsum("ij,ij->i", users[rows], items[ratings.indices]) - ratings.data
        weighted = 2.0 * error * phi[entry[rows], ratings.indices]
        gradient = np.bincount(rows, weights=weighted, minlength=n) * users[np.arange(n), factor]
        clipped = randomizer.clip_entries(gradient)
        positive = randomizer.compute_bits(clipped, flip=draws[:, 1], corner=draws[:, 2])
        reports = Reports(
            coordinates=index[:, None].astype(np.int32),
            is_positive=positive[:, None],
            magnitude=randomizer.magnitude,
            shape=(self.rows, self.factors),
        )
        slope = sparse.csr_array((error, ratings.indices, ratings.indptr), shape=ratings.shape)
        size = np.bincount(rows, weights=(items**2).sum(axis=1)[ratings.indices], minlength=n)
        length = np.where(size > 0, 1.0 / np.where(size > 0, size, 1.0), 0.0)[:, None]
        moved = sgd_mf.project_embeddings(users - length * (slope @ items), self.bound)
        return {"signs": reports}, moved.astype(np.float32)

    def run_round(
        self, round_index: int, model: Broadcast, collect_messages: Any, rng: np.random.Generator
    ) -> tuple[Round, Floats]:
        """Runs one round; returns its messages, and the next item embeddings, one row per item.

        The server takes a step along Phi^T times the mean report of all devices, where Phi is the
        random matrix that reduces gradients.
        """
        messages = collect_messages(model)
        reports = messages["signs"]
        mean = reports.sum_all() / len(reports)
        step = sgd_mf.get_learning_rate(round_index, self.rounds, self.learning_rate)
        after = np.asarray(model["items"]) - step * (np.asarray(model["projection"]).T @ mean)
        crossed = Round(broadcast=model, uploads=Uploads(np.arange(len(reports)), messages))
        return crossed, sgd_mf.project_embeddings(after.astype(np.float32), self.bound)

    def draw_broadcast_arrays(self, n_items: int, rng: np.random.Generator) -> dict[str, Any]:
        """Draws the random matrix Phi, (rows, n_items), which every broadcast contains as
        "projection".
        """
        drawn = rng.normal(scale=1.0 / math.sqrt(self.rows), size=(self.rows, n_items))
        return {"projection": drawn.astype(np.float32)}

    def fill_broadcast(self, broadcast: Broadcast | None, profiles: Any) -> Broadcast:
        """Checks a broadcast, and returns it with the default value of "first" if this is missing.

        ``broadcast``: arrays by name. "items" (current item embeddings) and "projection" (the
            matrix Phi) are required. "first" (initial item embeddings) is by default "items".
        ``profiles``: interactions of the users, which give the number of items.

        Raises InputError if a required array is missing, or if an array has a wrong shape.
        """
        sent = super().fill_broadcast(broadcast, profiles)
        table(sent, "projection", (self.rows, profiles.n_items))
        return sent
