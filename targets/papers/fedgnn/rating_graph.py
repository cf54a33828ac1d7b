"""Rating prediction on the graph of a user's own items, the base class of both FedGNN systems."""

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
from fedrec_auditor.targets.settings import Count, NonNegative, Positive
from fedrec_auditor.targets.systems.base import HoldOut, Model, Population, UtilityTest
from fedrec_auditor.targets.systems.system import System, get_broadcast_array
from fedrec_auditor.targets.transcript import Broadcast


@dataclass(frozen=True, slots=True)
class UserGradients:
    """Gradients of n users' losses with respect to all trained parameters.

    The parameters are the item table, the layer A and the users' own embeddings. For m items and
    dimension d, the gradient row of item j for user i is ``item_weights[i, j] * hidden_vectors[i] +
    item_row_offsets[i]`` if the user rated the item, else 0. A loss is the mean squared error of a
    user's ratings, in units of the setting ``best`` of ``RatingGraphSystem``.

    ``is_rated``: whether a user rated an item, (n, m).
    ``item_weights``: factors in the gradient rows, (n, m).
    ``hidden_vectors``: embeddings of the users, (n, d).
    ``item_row_offsets``: one summand per user in the gradient rows, (n, d).
    ``user_embedding_gradients``: gradient of the sum of a user's squared errors (not of their mean)
        with respect to the user's embedding, (n, d).
    ``layer_gradients``: gradient with respect to the layer A, (n, d, d).
    """

    is_rated: NDArray[np.bool_]
    item_weights: Floats
    hidden_vectors: Floats
    item_row_offsets: Floats
    user_embedding_gradients: Floats
    layer_gradients: Floats


@dataclass(frozen=True, kw_only=True)
class RatingGraphSystem(System):
    """Base class of rating predictors with one graph convolution and a squared error per rating.

    A user's embedding is h = A m, with a layer A and the mean m of the embeddings of the user's
    items. If neighbours (users with a common item) are known, m is averaged with the mean of their
    embeddings. The predicted rating of an item with embedding v is ``level`` + ``best`` h.v.

    With a ``user_rate`` above 0 a user's embedding is h = A m + e, as in the papers of FedGNN and
    FedPerGNN. The user's own vector e begins at 0 and stays on the device.

    ``dimension``: number d of entries of an embedding, as in the released code.
    ``learning_rate``: learning rate, as in the released code.
    ``best``: factor of h.v in a predicted rating, by default the best rating 5; chosen here.
    ``level``: predicted rating if h.v is 0; chosen here.
    ``init_scale``: standard deviation of the initial item embeddings; chosen here.
    ``user_rate``: learning rate of the user's own vector e; 0 if there is no such vector.
    ``norm``: norm by which a message is clipped, the largest absolute value ("max") or "l2".
    """

    # Whenever the user sends a message, e takes a gradient step on the sum of the user's squared
    # errors. Neighbours receive h. Without e, two users of equal items get equal predictions,
    # whatever their ratings are. The released code of FedPerGNN has e, too.

    dimension: Annotated[Count, "entries of an embedding"] = 64
    learning_rate: Annotated[Positive, "learning rate"] = 0.01
    best: Annotated[Positive, "predicted rating minus level if h.v is 1"] = 5.0
    level: Annotated[Positive, "predicted rating if h.v is 0"] = 3.5
    init_scale: Annotated[Positive, "standard deviation of the first embeddings"] = 0.1
    user_rate: Annotated[NonNegative, "learning rate of a user's own vector; 0: no vector"] = 0.0
    norm: Literal["max", "l2"] = "l2"

    evaluation = UtilityTest(split=HoldOut.HELD_OUT_RATINGS, cutoffs=())

    @property
    def assumes(self) -> tuple[str, ...]:
        """Assumption of the bounds, as a sentence: only a user's own messages depend on the user.

        In fact a user's history also affects the messages of neighbours (users of a common item).
        The bounds ignore this effect.
        """
        return ("Other users' messages reveal nothing about a user who is their neighbour.",)

    @property
    @abstractmethod
    def max_entry(self) -> float:
        """Largest absolute value of an entry of a message before the noise.

        If messages are models, it bounds an entry of the model's change.
        """

    @property
    @abstractmethod
    def noise(self) -> float:
        """Scale of the Laplace noise on each entry of a message, in units of the entry."""

    @property
    def entry_epsilon(self) -> float:
        """Epsilon of one entry of a message: 2 ``max_entry`` / ``noise``."""
        return 2.0 * self.max_entry / self.noise

    @property
    def data_noise_epsilon(self) -> float:
        """Additional epsilon of one entry of the item table, caused by noise that depends on data.

        By default 0, because Laplace noise of fixed scale is the only noise.
        """
        return 0.0

    @abstractmethod
    def count_messages_with_user(self, population: Population) -> int:
        """Returns the largest number of messages in a training that depend on one user."""

    def make_randomizer(self, population: Population) -> ComponentLaplace:
        """Returns the mechanism that adds Laplace noise to all numbers of a message.

        Inputs are limited to the cube of clipped messages. If messages are clipped by their L2
        norm, inputs are limited to the largest cube in the L2 ball, whose corners are the worst
        inputs.
        """
        count = self.count_model_weights(population)
        part = 1.0 if self.norm == "max" else 1.0 / math.sqrt(count)
        noisy = NoisyComponent("all", count, self.entry_epsilon * part)
        return ComponentLaplace((noisy,), self.max_entry * part)

    def get_mechanism(self, scope: Scope, population: Population) -> Mechanism | None:
        """Returns the mechanism that adds the Laplace noise to the protected part of the messages.

        - For one coordinate of a message: the noise on one entry.
        - For a user's data or a report: the noise on a whole message (``make_randomizer``).
        - For all other data, the participation of a user, and adversaries other than the server:
          None.

        If the horizon is a training, the mechanism is repeated for all messages of a user.
        """
        found: Mechanism
        if scope.vantage is not Vantage.SERVER or scope.protects_user_presence:
            return None
        if scope.unit is Unit.COORDINATE:
            found = Clipped(Laplace(scale=self.noise, low=-self.max_entry, high=self.max_entry))
        elif scope.unit in (Unit.USER, Unit.REPORT):
            found = self.make_randomizer(population)
        else:
            return None
        return self.repeat_mechanism(found, scope, population)

    def repeat_mechanism(self, one: Mechanism, scope: Scope, population: Population) -> Mechanism:
        """Returns the mechanism of all messages of a user within the horizon of ``scope``.

        ``one``: mechanism of one message, which is repeated for every message.

        A round has one message of a user; a training has ``count_messages_with_user`` messages.
        """
        training = scope.horizon is Horizon.TRAINING
        return Repeated(one, self.count_messages_with_user(population)) if training else one

    def get_event(self, scope: Scope, population: Population) -> dp.DpEvent:
        """Returns the accounting event of the noise on all messages in the horizon of ``scope``.

        The event depends on the protected data:

        - one coordinate of a message: the noise on one entry;
        - the participation of a user, which is not hidden: ``NonPrivateDpEvent``;
        - all other data: the noise on all entries.
        """
        # If n numbers are clipped together to an L2 norm of C, the sensitivity in L1 norm is 2
        # sqrt(n) C. It is attained if all numbers change from C/sqrt(n) to -C/sqrt(n).
        if scope.protects_user_presence:
            return dp.NonPrivateDpEvent()
        one, training = scope.unit is Unit.COORDINATE, scope.horizon is Horizon.TRAINING
        spent = self.entry_epsilon if one else self.make_randomizer(population).epsilon
        spent += self.data_noise_epsilon * (1 if one else population.n_items * self.dimension)
        count = self.count_messages_with_user(population) if training else 1
        return dp.SelfComposedDpEvent(dp.PureDpEvent(spent), count)

    def get_training_cost_args(self, interactions: Interactions) -> dict[str, float]:
        """Returns keyword arguments of ``TrainingCost.estimate``: a message has all weights of the
        model.
        """
        sizes = Population(n_users=interactions.n_users, n_items=interactions.n_items)
        numbers = self.count_model_weights(sizes)
        return {"width": self.dimension, "n_message_values": numbers, "message_bytes": 4 * numbers}

    def count_model_weights(self, population: Population) -> int:
        """Returns the number of trained weights: all entries of the item table and the layer A."""
        return self.dimension * (population.n_items + self.dimension)

    def draw_initial_model(self, n_items: int, rng: np.random.Generator) -> dict[str, Floats]:
        """Draws the initial model: a random item table, and the identity as the layer.

        The arrays are "item" (m, d) and "gnn.A" (d, d), for m items and embedding dimension d.
        """
        items = rng.normal(scale=self.init_scale, size=(n_items, self.dimension))
        return {"item": items.astype(np.float32), "gnn.A": np.eye(self.dimension, dtype=np.float32)}

    def get_model_arrays(self, broadcast: Broadcast | None, profiles: Interactions) -> Broadcast:
        """Returns the two arrays of the model in a broadcast: the item table "item", and the layer
        "gnn.A".

        Raises InputError if one of the two arrays is missing or has a wrong shape.
        """
        shapes = {"item": (profiles.n_items, self.dimension), "gnn.A": (self.dimension,) * 2}
        return {name: get_broadcast_array(broadcast, name, shape) for name, shape in shapes.items()}

    def average_item_embeddings(
        self, ratings: sparse.csr_array, model: Broadcast, neighbours: Floats | None
    ) -> tuple[Floats, float]:
        """Returns the mean embedding m of each user's items (and neighbours), and the weight of the
        items.

        ``ratings``: ratings of n users, one row per user.
        ``model``: arrays by name, with the item table "item".
        ``neighbours``: mean embedding of each user's neighbours, shape (n, d); None without
            neighbours.

        - Without ``neighbours``: m, of shape (n, d), is the mean over the user's items, and the
          weight is 1.
        - With ``neighbours``: m is the average of the items' mean and of ``neighbours``, and the
          weight is 0.5.
        """
        counts = np.maximum(np.diff(ratings.indptr), 1)[:, None]
        mine = _mark_interactions(ratings) @ np.asarray(model["item"], np.float64) / counts
        return (mine, 1.0) if neighbours is None else ((mine + neighbours) / 2.0, 0.5)

    def compute_neighbour_means(
        self, ratings: sparse.csr_array, model: Broadcast, own_vectors: Floats | float = 0.0
    ) -> Floats:
        """Computes all users' embeddings, and returns their mean over each user's neighbours, one
        row per user.

        ``ratings``: ratings of all users, one row per user.
        ``model``: item table "item" and layer "gnn.A" (A).
        ``own_vectors``: the users' own vectors e, one row per user.

        The embedding of a user is h = A m + e, where m is the mean of the embeddings of the user's
        items. Neighbours are users with a common item, including the user; a neighbour counts once
        per common item.
        """
        # In the papers, a third party matches equal item codes, computes the means and sends them
        # back.
        layer = np.asarray(model["gnn.A"], np.float64)
        users = self.average_item_embeddings(ratings, model, None)[0] @ layer.T + own_vectors
        return self.average_over_neighbours(ratings, users)

    def average_over_neighbours(self, ratings: sparse.csr_array, users: Floats) -> Floats:
        """Returns the mean of the given user embeddings, ``users``, over each user's neighbours.

        ``users`` and the result have one row per user. Neighbours are users with a common item,
        including the user; a neighbour counts once per common item.
        """
        met = _mark_interactions(ratings)
        found = met @ np.asarray(met.sum(axis=0)).ravel()
        return np.asarray(met @ (met.T @ users) / np.maximum(found, 1.0)[:, None])

    def compute_gradients(
        self,
        ratings: sparse.csr_array,
        model: Broadcast,
        neighbours: Floats | None = None,
        own_vectors: Floats | float = 0.0,
    ) -> UserGradients:
        """Computes the gradients of the mean squared error of each user's ratings, in units of
        ``best``.

        ``ratings``: ratings of n users, one row per user.
        ``model``: item table "item" and layer "gnn.A".
        ``neighbours``: mean embedding of each user's neighbours, (n, d), which is treated as
            constant; None without neighbours.
        ``own_vectors``: the users' own vectors e, (n, d).
        """
        items, layer = (np.asarray(model[n], np.float64) for n in ("item", "gnn.A"))
        m, share = self.average_item_embeddings(ratings, model, neighbours)
        own, hidden = ratings.toarray() != 0, m @ layer.T + own_vectors
        count = np.maximum(own.sum(axis=1, keepdims=True), 1)
        target = (ratings.toarray() - self.level) / self.best
        weight = np.where(own, 2.0 / count * (hidden @ items.T - target), 0.0)
        user = weight @ items
        return UserGradients(
            is_rated=own,
            item_weights=weight,
            hidden_vectors=hidden,
            item_row_offsets=share / count * (user @ layer),
            user_embedding_gradients=count * user,
            layer_gradients=user[:, :, None] * m[:, None, :],
        )

    def compute_user_step(self, gradients: UserGradients, model: Broadcast) -> Floats:
        """Returns the step that is subtracted from each user's own vector e, one row per user.

        A step is the learning rate times the gradient of the sum of the user's squared errors. The
        learning rate is ``user_rate``, but at most one over the sum of the squared lengths of the
        embeddings of the user's items.
        """
        # This maximum keeps the training from diverging with noisy item embeddings.
        squares = gradients.is_rated @ np.square(np.asarray(model["item"], np.float64)).sum(axis=1)
        rate = np.minimum(self.user_rate, 1.0 / np.maximum(squares, 1e-100))
        return np.asarray(rate[:, None] * gradients.user_embedding_gradients)

    def score(self, model: Model, interactions: Interactions, users: Ints) -> Floats:
        """Returns predicted ratings of ``users`` for all items, shape (len(users), n_items).

        ``users`` are row indices of ``interactions``. The ratings follow from the last model, the
        users' histories, their neighbours and their own vectors.
        """
        arrays, near = model.arrays, model.arrays.get("near")
        ratings = interactions.ratings[users]
        m, _ = self.average_item_embeddings(ratings, arrays, None if near is None else near[users])
        hidden = m @ arrays["gnn.A"].T + arrays["kept"][users]
        return np.asarray(self.level + self.best * (hidden @ arrays["item"].T))


def _mark_interactions(ratings: sparse.csr_array) -> sparse.csr_array:
    """Returns a table with a 1 for each item with which a user interacted, else 0."""
    ones = np.ones(ratings.nnz)
    return sparse.csr_array((ones, ratings.indices, ratings.indptr), shape=ratings.shape)
