"""Interfaces of the three parts of a federated recommender: learner (model), protection of uploads,
and route to the server.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.events import dp
from fedrec_auditor.accountants.statements import Unit, Vantage
from fedrec_auditor.targets.components import Component, Floats, Ints, Randomizer
from fedrec_auditor.targets.compute import Machine
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.mechanisms.base import Mechanism
from fedrec_auditor.targets.settings import NoiseSetting, get_numeric_fields
from fedrec_auditor.targets.streams import Streams
from fedrec_auditor.targets.transcript import Broadcast


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSizes:
    """Numbers of items and of features per user, from which the shapes of a model's arrays
    follow.
    """

    n_items: int
    n_user_features: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Clients:
    """The n devices that train in one round: their data and their random streams.

    ``interactions``: interactions of the devices' users, one row per device.
    ``features``: features of each device's user, shape (n, d1), from Table I of the FedRec paper.
    ``streams``: one random stream per device, new in every round.
    ``linear_term_streams``: one random stream per device, equal in every round, for the
        coefficients of the linear term that is added to the loss (objective perturbation). None
        means that ``streams`` are used.
    ``user_embeddings``: each device's own array "user.E" of the model, shape (n, d, d1), if it
        never leaves the device; None if the server broadcasts "user.E".
    """

    interactions: Interactions
    features: Floats
    streams: Streams
    linear_term_streams: Streams | None = None
    user_embeddings: Floats | None = None

    def __len__(self) -> int:
        return self.interactions.n_users

    def subset(self, devices: NDArray[np.integer[Any]]) -> Clients:
        """Returns a copy with only the devices at the row indices ``devices``, in this order."""
        return Clients(
            interactions=self.interactions.take_users(devices),
            features=self.features[devices],
            streams=self.streams.take(devices),
            linear_term_streams=None
            if self.linear_term_streams is None
            else self.linear_term_streams.take(devices),
            user_embeddings=None if self.user_embeddings is None else self.user_embeddings[devices],
        )


class EpochNoise(Randomizer, Protocol):
    """Function that a device uses to add noise to one array of its model between two local
    epochs.
    """

    def add_noise_to_rows(
        self, values: NDArray[Any], streams: Streams, indptr: Ints, ids: Ints
    ) -> NDArray[Any]:
        """Adds noise to selected rows of each device's table, and returns the noisy rows, shape
        (nnz, d).

        ``values``: the selected rows of all devices, shape (nnz, d).
        ``streams``: one random stream per device.
        ``indptr``: device i has the rows ``values[indptr[i] : indptr[i + 1]]``.
        ``ids``: index of each row in the full table of its device, shape (nnz,).

        The noise of an entry depends on its position in the full table. The result is therefore
        equal to the selected rows of a full table to which noise was added.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalTraining:
    """Settings of a device's local training on minibatches of positives (the user's own items) and
    sampled negatives.

    A component is a named array of the model.

    ``epochs``: passes over all examples, each in a new order.
    ``batch``: examples per minibatch.
    ``negatives``: number of sampled negatives per positive, drawn once per upload.
    ``learning_rate``: learning rate.
    ``optimizer``: "sgd" for plain gradient descent, or "adam".
    ``linear_term_scales``: scale of the Laplace noise from which the coefficients of a linear term
        in the loss are drawn (objective perturbation), by component. The loss of each example
        contains this term, divided by the number of examples.
    ``epoch_noise``: noise on all entries after every epoch except the last, by component. Every
        device adds this noise, even one without examples. The ``Protection`` adds the noise after
        the last epoch, when it makes the upload.
    """

    epochs: int = 5
    batch: int = 32
    negatives: int = 4
    learning_rate: float = 0.001
    optimizer: Literal["sgd", "adam"] = "sgd"
    linear_term_scales: Mapping[str, float] = field(default_factory=dict)
    epoch_noise: Mapping[str, EpochNoise] = field(default_factory=dict)


class Learner(Protocol):
    """A model with named arrays (components), trained on devices and averaged on the server.

    Learners are frozen dataclasses whose fields are settings from a paper. Components form groups,
    because a protection may give each group its own epsilon. A component's name begins with the
    name of its group, followed by a dot if the group has several components: "user.W1", "item" (one
    row per item), "mlp1.weight".
    """

    @property
    def group_names(self) -> tuple[str, ...]:
        """Names of the groups to which the model's named arrays (components) belong, in order, such
        as ("user", "item", "mlp1", "mlp2").
        """
        ...

    @property
    def tuned_values(self) -> Mapping[str, Any]:
        """Settings of the whole system (fields of ``Composition``), by name, with which the
        unprotected model recommends well.

        They are used only if an audit sets ``learns`` to true. By default there are none.
        """
        return {}

    def get_param_shapes(self, catalogue: ModelSizes) -> dict[str, tuple[int, ...]]:
        """Returns the shape of every component (named array of the model), by name, for these
        numbers of items and features.
        """
        ...

    def init_model(
        self, catalogue: ModelSizes, rng: np.random.Generator
    ) -> dict[str, NDArray[Any]]:
        """Draws the initial model with ``rng``, as float32 arrays by name."""
        ...

    def init_user_vectors(self, streams: Streams) -> NDArray[np.float32]:
        """Draws the initial user vector of each device, shape (n, d, 1), for systems in which this
        vector never leaves the device.

        The vector replaces the broadcast array "user.E", for a user whose only feature is 1.
        """
        ...

    def train(
        self, broadcast: Broadcast, clients: Clients, local: LocalTraining, compute: Machine
    ) -> dict[str, Component]:
        """Trains the broadcast model on every device, and returns the devices' models by component.

        A component is one named array of the model, for all devices. Components are stored in full
        (``Dense``), except the item table, of which only trained rows are stored
        (``Rows`` over the broadcast table). If ``local.epoch_noise`` has noise for the items,
        the trained rows are stored over a noisy table (``OverlaidTables``). A device's result
        depends only on its own row of ``clients`` and on the broadcast. A device without
        interactions returns the broadcast, and its ``user_embeddings`` as "user.E" if it has one.
        """
        ...

    def compute_user_vectors(self, model: Broadcast, clients: Clients) -> Floats:
        """Computes one vector per user, shape (n, d), from ``model`` and the user's data; d is the
        length of an item's row.
        """
        ...

    def score(self, model: Broadcast, clients: Clients) -> Floats:
        """Computes the scores of all items for each device's user, shape (n, n_items), from
        ``model`` and the device's data.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtectionClaim:
    """A privacy claim of a protection's authors about one round, in this project's words.

    ``epsilon``: epsilon of the claim; infinite if the authors state no number.
    ``unit``: the data that the claim protects, such as one interaction.
    ``statement``: the claim in one or two sentences.
    ``second_delta``: a second delta, above 0, at which the claim is compared with bounds; 0 if the
        claim is compared only at delta 0.
    ``outside_model``: a part of the audited protection that the authors do not state and this
        project chose, such as a distribution. If not empty, no bound refutes the claim.
    """

    epsilon: float
    unit: Unit
    statement: str
    second_delta: float = 0.0
    outside_model: str = ""


class Protection(Protocol):
    """Privacy measures of a device: changes of its user's features, its local training, and its
    upload.

    Protections are frozen dataclasses whose fields are settings from a paper. The default methods
    leave features, training and upload unchanged, return no randomizer, and return an infinite
    epsilon.
    """

    noise_setting: ClassVar[NoiseSetting | None] = None
    """Names of the fields that set how much noise the protection adds; None if it adds no noise."""

    @property
    def tuned_values(self) -> Mapping[str, Any]:
        """Settings of the whole system, by name, that replace those of ``Learner.learning``,
        because the protection requires other values.

        By default ``private_user`` is false if features are perturbed, because the model must then
        use features.
        """
        return {} if self.get_attribute_event() is None else {"private_user": False}

    def prepare_data(self, clients: Clients) -> Clients:
        """Returns the data on which the clients train, such as perturbed features; called once,
        before the first round.
        """
        return clients

    def adapt_training(
        self, local: LocalTraining, shapes: Mapping[str, tuple[int, ...]]
    ) -> LocalTraining:
        """Returns the settings of the local training, changed as the protection requires.

        ``local``: settings without the protection.
        ``shapes``: shapes of the model's components (named arrays), by name.
        """
        return local

    def protect(
        self, upload: Mapping[str, Component], broadcast: Broadcast, clients: Clients
    ) -> dict[str, Component]:
        """Computes the messages that devices send in place of their trained models ``upload``, such
        as noisy copies.

        ``upload``: trained models of all devices, one component per named array of the model.
        ``broadcast``: the model that the devices received.

        The messages have the names of ``upload``. Randomness comes from ``clients.streams``.
        """
        return dict(upload)

    def make_claims(self, groups: tuple[str, ...]) -> tuple[ProtectionClaim, ...]:
        """Returns the authors' privacy claims for a model with these ``groups`` of arrays, such as
        "user" and "item".
        """
        ...

    def get_entry_randomizer(self, group: str) -> Mechanism | None:
        """Returns the randomizer of one entry of an array in ``group``, such as "item"; None if
        such entries are sent without noise.
        """
        return None

    def get_upload_randomizer(self, sizes: Mapping[str, int]) -> Mechanism | None:
        """Returns the randomizer of a whole upload; None if no single randomizer covers every pair
        of uploads.

        ``sizes`` is the number of entries of an upload, by group of arrays, such as "user" and
        "item".
        """
        return None

    def get_upload_epsilon(self, sizes: Mapping[str, int]) -> float:
        """Computes the epsilon of a whole upload at delta 0; infinite if no finite epsilon holds.

        ``sizes`` is the number of entries of an upload, by group of arrays, such as "user" and
        "item".
        """
        return math.inf

    def get_row_change_probability(self, n_items: int) -> float:
        """Returns the probability that the protection changes an item's row that training left
        unchanged.

        ``n_items`` is the number of items in the catalogue.
        """
        return 0.0

    def get_attribute_event(self) -> dp.DpEvent | None:
        """Returns the accounting event of one attribute of the user, such as gender, in a whole
        training.

        None means that only the upload's protection covers the attribute, so that the upload's
        event applies.
        """
        return None

    @property
    def settings(self) -> Mapping[str, float]:
        """Settings that the adversary knows, by name: all fields that are numbers or booleans."""
        return get_numeric_fields(self)


class Route(Protocol):
    """Way of uploads to the server (direct, shuffled or summed), which determines what an adversary
    sees of them.
    """

    @property
    def vantage(self) -> Vantage:
        """View of the strongest party that follows the protocol, such as every upload or only their
        sum.
        """
        ...

    def get_event(self, local: dp.DpEvent, epsilon: float, n_senders: int) -> dp.DpEvent:
        """Returns the accounting event of one round, for an adversary who sees what this route lets
        the server see.

        ``local``: event of every sender's own upload.
        ``epsilon``: epsilon of one whole upload at delta 0; infinite if no finite epsilon holds.
        ``n_senders``: number of senders in the round.

        By default, the result is ``local``, because the adversary sees at most the uploads.
        """
        return local
