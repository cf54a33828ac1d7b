"""FedGNN as described: clients send clipped, noisy gradients of their own items and of random
others.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Annotated, Literal

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy import sparse

from fedrec_auditor.accountants.events import dp
from fedrec_auditor.accountants.statements import Horizon, Scope, Unit, Vantage, make_local_scope
from fedrec_auditor.targets import components
from fedrec_auditor.targets.components import Dense, Floats, Ints, Payload, SparseRows
from fedrec_auditor.targets.compute import Machine
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.federated.noise import ClippedNoise
from fedrec_auditor.targets.federated.systems import FedAdam, get_first_item_entry
from fedrec_auditor.targets.mechanisms.base import Mechanism
from fedrec_auditor.targets.mechanisms.composed_mechanisms import Identity
from fedrec_auditor.targets.mechanisms.report_mechanisms import BitFlip
from fedrec_auditor.targets.papers.fedgnn.rating_graph import RatingGraphSystem, UserGradients
from fedrec_auditor.targets.settings import Count, NoiseSetting, Positive
from fedrec_auditor.targets.streams import Streams
from fedrec_auditor.targets.systems import system
from fedrec_auditor.targets.systems.base import DesignedPair, Population
from fedrec_auditor.targets.systems.system import Messages, TrainingRounds, UploadRequest
from fedrec_auditor.targets.transcript import Broadcast, Round, Uploads

# Keys of a client's random streams; subclasses use other keys.
_CHOICE, _PSEUDO, _ITEM, _LAYER = range(4)


@dataclass(frozen=True, kw_only=True)
class FedGnn(RatingGraphSystem):
    """FedGNN: rating prediction on item graphs, with clipped gradients and Laplace noise.

    A message has three parts, which are clipped and get Laplace noise (equation 1):

    - the gradient rows of the client's own items (items that its user rated);
    - the rows of pseudo items (random other items);
    - the gradient of the layer A.

    Rows of all further items are missing, which reveals that the user did not rate these items.

    ``clip``: largest norm of a message.
    ``noise``: scale of the Laplace noise on every number of a message.
    ``norm``: norm that is clipped, "max" (each number; section 3.3) or "l2" (the whole message; as
        in the released code).
    ``pseudo``: number of pseudo items per message.
    ``cohort``: number of clients per round.
    ``rounds``: number of rounds per training.
    ``warm_up``: number of epochs after which the embeddings of neighbours (users with a common
        item) are computed, once.
    ``server``: optimizer of the server: a step along the "mean" gradient, or a step of "adam"
        (``FedAdam``).

    Defaults are those of section 4.1; ``rounds`` are its 3 epochs of MovieLens 100K.

    >>> from fedrec_auditor.targets.systems.base import Population
    >>> [q.claim.epsilon for q in FedGnn().get_claims(Population(n_users=943, n_items=1682))]
    [1.0, 1.0, 1.0]
    """

    # Rows of pseudo items are drawn from the normal distribution with the mean and covariance of
    # the rows of own items. Steps along the mean hardly move an item that few clients of the round
    # rated.

    clip: Annotated[Positive, "largest norm of a message"] = 0.1
    noise: Annotated[Positive, "scale of the Laplace noise on every number"] = 0.2
    norm: Literal["max", "l2"] = "max"
    pseudo: Annotated[Count, "other items' rows that a client sends"] = 1000
    cohort: Annotated[Count, "clients per round"] = 128
    rounds: Annotated[Count, "rounds per training"] = 22
    warm_up: Annotated[Count, "epochs before neighbours' embeddings are added"] = 2
    server: Annotated[Literal["mean", "adam"], "optimizer of the server"] = "mean"

    aliases = MappingProxyType({"lambda": "noise"})
    tuned_values = MappingProxyType(
        {
            "dimension": 16,
            "init_scale": 0.01,
            "level": 1.0,
            "user_rate": 0.002,
            "learning_rate": 0.005,
            "server": "adam",
            "rounds": 400,
            "warm_up": 10,
        }
    )
    noise_setting = NoiseSetting(noise_names=("noise",), noiseless_value=1e-100)

    @property
    def max_entry(self) -> float:
        """Largest absolute value of an entry of a message before its noise: ``clip``."""
        return self.clip

    @property
    def epsilon(self) -> float:
        """Epsilon that the paper claims: 2 ``clip`` / ``noise`` (section 3.3, footnote 6).

        The paper does not state which data the claim protects.
        """
        return 2.0 * self.clip / self.noise

    def get_training_cost_args(self, interactions: Interactions) -> dict[str, float]:
        """Returns keyword arguments of ``TrainingCost.estimate``, which estimates the cost of a
        training.

        A round has ``cohort`` senders; a message stores the item rows that are sent, and the layer
        A.
        """
        args, n_users = super().get_training_cost_args(interactions), interactions.n_users
        rows = interactions.ratings.nnz / max(1, n_users) + self.pseudo
        sent = min(interactions.n_items, rows) * (4 * self.dimension + 8) + 4 * self.dimension**2
        return args | {"senders_per_round": min(self.cohort, n_users), "message_bytes": sent}

    def count_messages_with_user(self, population: Population) -> int:
        """Returns the largest number of messages of one user in a training: one per round."""
        return self.rounds

    def may_sent_rows_reveal_data(self, scope: Scope, population: Population) -> bool:
        """Whether the choice of the sent item rows may reveal the data that ``scope`` protects.

        False if ``pseudo`` is at least the number of items, because all rows are then sent. Also
        false for a coordinate, for a rating's value, and for the presence of a user.
        """
        # The row of an item that the user rated is always sent. ``get_event`` treats the presence
        # of a user separately.
        hidden = scope.protects_rating_value or scope.protects_user_presence
        numbers = scope.unit is Unit.COORDINATE or hidden
        return self.pseudo < population.n_items and not numbers

    def get_mechanism(self, scope: Scope, population: Population) -> Mechanism | None:
        """Returns the mechanism from the protected data to the messages: the choice of sent rows,
        or the noise.

        If ``may_sent_rows_reveal_data`` is false, the mechanism is the Laplace noise of the base
        class. Otherwise it depends on the protected data:

        - A user or a report: the identity, which protects nothing.
        - An interaction: the choice of one item's row. With the interaction the row is sent for
          certain, without it with the probability of a pseudo item.
        - Attributes: None.

        The result is also None for adversaries other than the server.
        """
        # A user or a report: the number of sent rows reveals how many items the user has.
        if not self.may_sent_rows_reveal_data(scope, population):
            return super().get_mechanism(scope, population)
        if scope.vantage is not Vantage.SERVER or scope.unit is Unit.ATTRIBUTE:
            return None
        users = scope.unit in (Unit.USER, Unit.REPORT)
        row = Identity() if users else BitFlip(1.0, self.pseudo / population.n_items)
        return self.repeat_mechanism(row, scope, population)

    def get_event(self, scope: Scope, population: Population) -> dp.DpEvent:
        """Returns the accounting event of the Laplace noise on the messages.

        ``NonPrivateDpEvent`` if the choice of sent rows may reveal the data that ``scope``
        protects.
        """
        if self.may_sent_rows_reveal_data(scope, population):
            return Identity().event()
        return super().get_event(scope, population)

    def design_pairs(self) -> tuple[DesignedPair, ...]:
        """Returns one pair of worst-case users, who rate the same item low and high.

        The broadcast model (``make_malicious_broadcast``) makes all numbers of the users' messages
        so large that they are clipped, to opposite ends of the clipping interval.
        """
        game = replace(self, dimension=2, rounds=1, norm="max", pseudo=2)
        profiles = np.array([[0.3, 0.0], [1.4, 0.0]]) * self.level
        pair = DesignedPair(
            target=game,
            profiles=Interactions.create(profiles, name="game"),
            broadcast=game.make_malicious_broadcast(2),
            reducer=get_first_item_entry,
            scope=make_local_scope(Unit.COORDINATE, Vantage.SERVER, Horizon.ROUND),
            world_names=("item 0 rated low", "item 0 rated high"),
        )
        return (pair,)

    def make_malicious_broadcast(self, n_items: int) -> dict[str, np.ndarray]:
        """Returns a malicious server's broadcast, for which one rating decides the signs of all
        gradients.

        Two arrays are broadcast, for an even embedding dimension d:

        - the item table "item" (n_items, d), in which every entry is a large number t;
        - the layer "gnn.A" (d, d), which maps each row of "item" to (+t, -t, +t, ...).
        """
        # Every predicted rating then equals the setting ``level``. For a user with one rating,
        # every gradient entry is the scaled error of the prediction times 2 t or 2 t^2, up to sign,
        # and exceeds the clipping bound.
        t = max(1.0, 64.0 * self.clip * self.best / self.level)
        turns = np.resize([1.0, -1.0], self.dimension)
        items = np.full((n_items, self.dimension), t, np.float32)
        layer = np.outer(turns, np.ones(self.dimension)) / self.dimension
        return {"item": items, "gnn.A": layer.astype(np.float32)}

    def train(self, interactions: Interactions, rng: Generator, compute: Machine) -> TrainingRounds:
        """Runs Algorithm 1, and yields the messages of each round.

        ``rng`` draws the initial model, the users of each round and the clients' randomness.
        """
        model: Broadcast = self.draw_initial_model(interactions.n_items, rng)
        ratings = interactions.ratings
        near, n = None, interactions.n_users
        own, moments = np.zeros((n, self.dimension)), FedAdam(self.learning_rate)
        for number in range(self.rounds):
            if near is None and number * self.cohort >= self.warm_up * n:
                near = self.compute_neighbour_means(ratings, model, own)
            users = np.sort(rng.permutation(n)[: self.cohort])
            streams = Streams.spawn(rng, len(users))
            received = None if near is None else near[users]
            rated = sparse.csr_array(ratings[users])
            one = self.compute_gradients(rated, model, received, own[users])
            uploads = Uploads(users, self.make_noisy_messages(one, streams))
            yield Round(broadcast=model, uploads=uploads)
            own[users] -= self.compute_user_step(one, model)
            rate = (1.0 if self.server == "adam" else self.learning_rate) / len(users)
            after = {
                name: (part - rate * uploads.components[name].sum_all()).astype(np.float32)
                for name, part in model.items()
            }
            model = moments.update_model(model, after) if self.server == "adam" else after
        used = {**model, "kept": own}
        return system.TrainingResult(model, used if near is None else {**used, "near": near})

    def make_messages(self, request: UploadRequest) -> Messages:
        """Returns the requested messages: clipped and noisy gradients.

        A message has the arrays "item" (m, d), of which some rows are sent, and "gnn.A" (d, d), for
        m items and embedding dimension d.
        """
        model = self.get_model_arrays(request.broadcast, request.profiles)
        gradients = self.compute_gradients(request.interactions.ratings, model)
        return self.make_noisy_messages(gradients, request.streams)

    def draw_row_selection_keys(self, own: NDArray[np.bool_], streams: Streams) -> Floats:
        """Draws one key per client and item; the item's row is sent if the key is finite.

        ``own``: whether the client's user rated the item, shape (clients, items).
        ``streams``: one random stream per client.

        The result has shape (clients, items). A key is 2 for own items, uniform in (0, 1) for
        pseudo items, and infinite for all other items.
        """
        # Each item that is not own gets a random number. The ``pseudo`` items with the smallest
        # numbers are the pseudo items.
        n_items = own.shape[1]
        order = np.where(own, 2.0, streams.derive(_CHOICE).draw_uniform(n_items))
        last = np.sort(order, axis=1)[:, min(self.pseudo, n_items) - 1, None]
        return np.where(own | ((order <= last) & (order < 1.0)), order, np.inf)

    def compute_gradient_rows(
        self, gradients: UserGradients, owners: Ints, ids: Ints, streams: Streams
    ) -> Floats:
        """Computes the gradient rows that clients send, before clipping and noise, (len(ids), d).

        ``gradients``: gradients of all clients.
        ``owners``, ``ids``: index of the client and of the item, per row.
        ``streams``: one random stream per client, which draws the rows of pseudo items.
        """
        own, weights = gradients.is_rated, gradients.item_weights
        count = np.maximum(own.sum(axis=1, keepdims=True), 1)
        mean = weights.sum(axis=1, keepdims=True) / count
        spread = np.sqrt((own * (weights - mean) ** 2).sum(axis=1, keepdims=True) / count)
        drawn = mean + spread * streams.derive(_PSEUDO).draw_normal(own.shape[1])
        scale = np.where(own, weights, drawn)[owners, ids, None]
        own_part = scale * gradients.hidden_vectors[owners]
        return np.asarray(own_part + gradients.item_row_offsets[owners])

    def make_noisy_messages(self, gradients: UserGradients, streams: Streams) -> Messages:
        """Clips the clients' ``gradients`` and adds noise; returns the messages, as arrays by name.

        ``streams`` has one random stream per client.
        """
        n_items = gradients.is_rated.shape[1]
        rows = np.isfinite(self.draw_row_selection_keys(gradients.is_rated, streams))
        owners, ids = np.nonzero(rows)
        values = self.compute_gradient_rows(gradients, owners, ids, streams)
        layer = gradients.layer_gradients
        if self.norm == "l2":
            squares = np.bincount(owners, (values**2).sum(axis=1), len(streams))
            length = np.sqrt(squares + (layer**2).sum(axis=(1, 2)))
            scale = self.clip / np.maximum(length, self.clip)
            values, layer = values * scale[owners, None], layer * scale[:, None, None]
        noise, indptr = ClippedNoise(self.clip, self.noise), np.append(0, rows.sum(axis=1).cumsum())
        values = values.astype(np.float32)
        item = noise.add_noise_to_rows(values, streams.derive(_ITEM), indptr, ids)
        clean = Dense(layer.astype(np.float32), Payload.GRADIENT, -1.0)
        return {
            "item": SparseRows(indptr, ids, item, n_items, Payload.GRADIENT, -1.0),
            "gnn.A": components.RandomizedMessages(clean, noise, streams.derive(_LAYER)),
        }
