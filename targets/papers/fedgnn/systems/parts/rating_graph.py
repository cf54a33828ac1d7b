"""Rating prediction on the graph of a user's own items, the base of both FedGNN systems."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedrec_auditor.accountants.events import dp
from fedrec_auditor.accountants.statements import Horizon, Scope, Unit, Vantage
from fedrec_auditor.targets.components import Floats, Ints
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.mechanisms.base import Mechanism
from fedrec_auditor.targets.mechanisms.component_laplace import ComponentLaplace, NoisyComponent
from fedrec_auditor.targets.mechanisms.composed_mechanisms import Clipped, Repeated
from fedrec_auditor.targets.mechanisms.laplace_mechanisms import Laplace
from fedrec_auditor.targets.settings import NotNegative, Positive, Whole
from fedrec_auditor.targets.systems.base import Evaluation, Model, Population, Split
from fedrec_auditor.targets.systems.system import System, get_table
from fedrec_auditor.targets.transcript import Broadcast


@dataclass(frozen=True, slots=True)
class Gradients:
    """Gradients of n users for the item table, the layer and their own embeddings.

    Row i of the item table has the gradient ``weight[i] * hidden + shared``.

    ``is_own``: whether an item is one of the user's (n, M).
    ``weight``: weight of each item (n, M); the mean and covariance of a user's rows follow from it.
    ``hidden``, ``shared``: the two vectors of a user's rows (n, d).
    ``user_gradient``: gradient by h of the sum of a user's squared errors (n, d).
    ``layer``: gradient by the layer (n, d, d).
    """

    is_own: NDArray[np.bool_]
    weight: Floats
    hidden: Floats
    shared: Floats
    user_gradient: Floats
    layer: Floats


@dataclass(frozen=True, kw_only=True)
class RatingGraph(System):
    """Base class of rating predictors with one graph convolution and a squared error per rating.

    Let m be the mean of the embeddings of the user's items, averaged with that of the neighbouring
    users once there are any. Then h = A m is the user's embedding and level + best h.v a predicted
    rating. ``learning_rate`` and ``dimension`` are the released code's; ``best``, ``level`` and
    ``init_scale`` were chosen here. ``norm`` is the norm by which a message is clipped: its largest
    number or L2.

    The papers and the released code have an embedding of the user beside those of its items. With a
    ``user_rate``, h = A m + e has such an embedding e. It begins at 0, takes a step by that rate on
    the sum of its user's squared errors whenever the user sends, and stays on the device from round
    to round; neighbours receive h. Without e, two users of the same items get the same predictions,
    for any ratings.
    """

    dimension: Annotated[Whole, "entries of an embedding"] = 64
    learning_rate: Annotated[Positive, "learning rate"] = 0.01
    best: Annotated[Positive, "predicted rating minus level if h.v is 1"] = 5.0
    level: Annotated[Positive, "predicted rating if h.v is 0"] = 3.5
    init_scale: Annotated[Positive, "standard deviation of the first embeddings"] = 0.1
    user_rate: Annotated[NotNegative, "learning rate of a user's own vector; 0: no vector"] = 0.0
    norm: Literal["max", "l2"] = "l2"

    evaluation = Evaluation(split=Split.HELD_OUT_RATINGS, cutoffs=())

    @property
    def assumes(self) -> tuple[str, ...]:
        """Assumption of the bounds, in words: only a user's own messages depend on the user.

        A history also decides which users are the neighbours of other users, which the bounds
        ignore.
        """
        return ("Other users' messages reveal nothing of a user who is one of their neighbours.",)

    @property
    @abstractmethod
    def max_number(self) -> float:
        """Largest absolute value of a number of a message before its noise."""

    @property
    @abstractmethod
    def noise(self) -> float:
        """Scale of the Laplace noise on each number of a message."""

    @property
    def number_eps(self) -> float:
        """Epsilon of one number of a message: 2 side / noise."""
        return 2.0 * self.max_number / self.noise

    @property
    def extra_eps(self) -> float:
        """Additional epsilon of one entry of the item table, for noise beyond the Laplace noise."""
        return 0.0

    @abstractmethod
    def n_messages(self, population: Population) -> int:
        """Number of messages of a training that depend on one user."""

    def randomizer(self, population: Population) -> ComponentLaplace:
        """Randomizer of all numbers of a message, at opposite corners of the clipped set.

        The corners are those of the cube or, if messages are clipped by L2, those of the cube
        within the ball.
        """
        count = self.weights(population)
        part = 1.0 if self.norm == "max" else 1.0 / math.sqrt(count)
        return ComponentLaplace(
            (NoisyComponent("all", count, self.number_eps * part),), self.max_number * part
        )

    def mechanism(self, scope: Scope, population: Population) -> Mechanism | None:
        """Laplace noise of one number, or of all numbers at opposite corners.

        None for the presence of a user, for values that are not sent, and for vantages other than
        the server.
        """
        found: Mechanism
        if scope.vantage is not Vantage.SERVER or scope.is_user_presence:
            return None
        if scope.unit is Unit.COORDINATE:
            found = Clipped(Laplace(scale=self.noise, low=-self.max_number, high=self.max_number))
        elif scope.unit in (Unit.USER, Unit.REPORT):
            found = self.randomizer(population)
        else:
            return None
        return self.repeat(found, scope, population)

    def repeat(self, one: Mechanism, scope: Scope, population: Population) -> Mechanism:
        """Repeats a message's mechanism for all messages within the horizon of ``scope``."""
        training = scope.horizon is Horizon.TRAINING
        return Repeated(one, self.n_messages(population)) if training else one

    def event(self, scope: Scope, population: Population) -> dp.DpEvent:
        """Event of the noise on one number, or on all numbers, of every message in the horizon.

        The participation of a user is not hidden. The L1 diameter of an L2 ball counts, which is
        sqrt(count) times its L2 diameter: corners attain it.
        """
        if scope.is_user_presence:
            return dp.NonPrivateDpEvent()
        one, training = scope.unit is Unit.COORDINATE, scope.horizon is Horizon.TRAINING
        spent = self.number_eps if one else self.randomizer(population).epsilon
        spent += self.extra_eps * (1 if one else population.n_items * self.dimension)
        return dp.SelfComposedDpEvent(
            dp.PureDpEvent(spent), self.n_messages(population) if training else 1
        )

    def cost_args(self, interactions: Interactions) -> dict[str, float]:
        """Sizes for estimating the training cost.

        They cover messages that contain all numbers of the model.
        """
        sizes = Population(n_users=interactions.n_users, n_items=interactions.n_items)
        numbers = self.weights(sizes)
        return {"width": self.dimension, "numbers": numbers, "bytes": 4 * numbers}

    def weights(self, population: Population) -> int:
        """Number of weights of the model: the item table and the layer."""
        return self.dimension * (population.n_items + self.dimension)

    def initial_model(self, n_items: int, rng: np.random.Generator) -> dict[str, Floats]:
        """Initial model: random items, and a layer that is the identity."""
        items = rng.normal(scale=self.init_scale, size=(n_items, self.dimension))
        return {"item": items.astype(np.float32), "gnn.A": np.eye(self.dimension, dtype=np.float32)}

    def get_broadcast(self, broadcast: Broadcast | None, profiles: Interactions) -> Broadcast:
        """Returns the broadcast's item table "item" and layer "gnn.A".

        Raises InputError if one of them is missing or has a wrong shape.
        """
        shapes = {"item": (profiles.n_items, self.dimension), "gnn.A": (self.dimension,) * 2}
        return {name: get_table(broadcast, name, shape) for name, shape in shapes.items()}

    def user_means(
        self, ratings: sparse.csr_array, model: Broadcast, near: Floats | None
    ) -> tuple[Floats, float]:
        """Mean embedding m of every user (n, d), and the share of the own items in it.

        The share is 1 without neighbours (``near``), and 0.5 with them.
        """
        counts = np.maximum(np.diff(ratings.indptr), 1)[:, None]
        mine = _interacted(ratings) @ np.asarray(model["item"], np.float64) / counts
        return (mine, 1.0) if near is None else ((mine + near) / 2.0, 0.5)

    def neighbours(
        self, ratings: sparse.csr_array, model: Broadcast, kept: Floats | float = 0.0
    ) -> Floats:
        """Mean embedding of the users of the same items, averaged over the items, (n, d).

        The third party computes it and sends it back. It matches item codes, which are equal for
        equal items.
        """
        layer = np.asarray(model["gnn.A"], np.float64)
        return self.near_means(ratings, self.user_means(ratings, model, None)[0] @ layer.T + kept)

    def near_means(self, ratings: sparse.csr_array, users: Floats) -> Floats:
        """Mean of ``users`` (n, d) over the users of the same items, averaged over the items."""
        met = _interacted(ratings)
        found = met @ np.asarray(met.sum(axis=0)).ravel()
        return np.asarray(met @ (met.T @ users) / np.maximum(found, 1.0)[:, None])

    def gradients(
        self,
        ratings: sparse.csr_array,
        model: Broadcast,
        near: Floats | None = None,
        kept: Floats | float = 0.0,
    ) -> Gradients:
        """Gradients of the mean squared error of each user's ratings.

        Neighbours' embeddings (``near``) are fixed. ``kept`` (n, d) holds the users' own vectors e.
        """
        items, layer = (np.asarray(model[n], np.float64) for n in ("item", "gnn.A"))
        m, share = self.user_means(ratings, model, near)
        own, hidden = ratings.toarray() != 0, m @ layer.T + kept
        count = np.maximum(own.sum(axis=1, keepdims=True), 1)
        target = (ratings.toarray() - self.level) / self.best
        weight = np.where(own, 2.0 / count * (hidden @ items.T - target), 0.0)
        user = weight @ items
        return Gradients(
            is_own=own,
            weight=weight,
            hidden=hidden,
            shared=share / count * (user @ layer),
            user_gradient=count * user,
            layer=user[:, :, None] * m[:, None, :],
        )

    def user_step(self, one: Gradients, model: Broadcast) -> Floats:
        """Steps of users on their own vectors, (n, d), so short that their errors do not rise.

        The longest step for which this is certain is one over the sum of the squared lengths of a
        user's items; with noisy items, ``user_rate`` alone would diverge.
        """
        squares = one.is_own @ np.square(np.asarray(model["item"], np.float64)).sum(axis=1)
        rate = np.minimum(self.user_rate, 1.0 / np.maximum(squares, 1e-100))
        return np.asarray(rate[:, None] * one.user_gradient)

    def score(self, model: Model, interactions: Interactions, users: Ints) -> Floats:
        """Predicted ratings of ``users`` for all items, (len(users), n_items).

        They follow from the last model, the history, the neighbours and the users' own vectors.
        """
        arrays, near = model.arrays, model.arrays.get("near")
        ratings = interactions.ratings[users]
        m, _ = self.user_means(ratings, arrays, None if near is None else near[users])
        hidden = m @ arrays["gnn.A"].T + arrays["kept"][users]
        return np.asarray(self.level + self.best * (hidden @ arrays["item"].T))


def _interacted(ratings: sparse.csr_array) -> sparse.csr_array:
    """Table with a 1 for each item with which a user interacted."""
    ones = np.ones(ratings.nnz)
    return sparse.csr_array((ones, ratings.indices, ratings.indptr), shape=ratings.shape)
