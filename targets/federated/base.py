"""Interfaces of the three parts of a composed federated recommender: learner, protection, route.

A learner is a model that devices train, a protection changes uploads, such as by noise, and a route
is the way of uploads to the server.
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
from fedrec_auditor.targets.settings import NoiseSetting, get_numbers
from fedrec_auditor.targets.streams import Streams
from fedrec_auditor.targets.transcript import Broadcast


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSizes:
    """Sizes of the data that determine the shapes of a model's arrays.

    n_items: number of items.
    n_user_features: number of features per user.
    """

    n_items: int
    n_user_features: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Clients:
    """Data and random streams of the n devices that train in one round.

    A user has d1 features, and an embedding has d entries.

    ``interactions``: interactions of the devices' users, one row per device.
    ``features``: features of each device's user, shape (n, d1), from Table I of the FedRec paper.
    ``streams``: one random stream per device, new in every round.
    ``linear_term_streams``: one random stream per device, equal in every round, for the random
        linear term in the loss (objective perturbation); None to use ``streams``.
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

    @property
    def data_sizes(self) -> DataSizes:
        """Numbers of items and of user features in the data."""
        n_items, n_user_features = self.interactions.n_items, self.features.shape[1]
        return DataSizes(n_items=n_items, n_user_features=n_user_features)

    def take_devices(self, devices: NDArray[np.integer[Any]]) -> Clients:
        """Returns a copy with only the devices at the row indices ``devices``, in this order."""
        linear, own = self.linear_term_streams, self.user_embeddings
        return Clients(
            interactions=self.interactions.take_users(devices),
            features=self.features[devices],
            streams=self.streams.take(devices),
            linear_term_streams=None if linear is None else linear.take(devices),
            user_embeddings=None if own is None else own[devices],
        )


class EpochNoise(Randomizer, Protocol):
    """Noise that a device adds to one array of its model between two local epochs."""

    def add_noise_to_rows(
        self, values: NDArray[Any], streams: Streams, indptr: Ints, ids: Ints
    ) -> NDArray[Any]:
        """Returns noisy copies of selected rows of each device's table, shape (k, d).

        ``values``: the k selected rows of all devices together, d numbers each, shape (k, d).
        ``streams``: one random stream per device.
        ``indptr``: device i has the rows ``values[indptr[i] : indptr[i + 1]]``.
        ``ids``: index of each row in its device's table, shape (k,).

        A row gets the same noise as if noise were added to the device's whole table.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalSettings:
    """Settings of a device's training on positives (the user's items) and sampled negatives.

    A component is a named array of the model.

    ``epochs``: passes over all examples, each in a new order.
    ``batch``: examples per minibatch.
    ``negatives``: number of sampled negatives per positive, drawn once per upload.
    ``learning_rate``: learning rate of the optimizer.
    ``optimizer``: "sgd" for plain gradient descent, or "adam".
    ``linear_term_scales``: scales for objective perturbation, by component. A linear term is added
        to the loss, divided equally among the examples. Its coefficients have a Laplace
        distribution of this scale.
    ``epoch_noise``: noise on all entries after every epoch except the last, by component. Every
        device adds this noise, even one without examples.
    """

    epochs: int = 5
    batch: int = 32
    negatives: int = 4
    learning_rate: float = 0.001
    optimizer: Literal["sgd", "adam"] = "sgd"
    linear_term_scales: Mapping[str, float] = field(default_factory=dict)
    # The ``Protection`` adds the noise after the last epoch, when it makes the upload.
    epoch_noise: Mapping[str, EpochNoise] = field(default_factory=dict)


class Learner(Protocol):
    """A model of named arrays (components), which devices train and the server averages.

    Learners are frozen dataclasses whose fields are settings from a paper. Components form groups,
    because a protection may give each group its own epsilon. A component's name is the name of its
    group, or begins with it and a dot: "user.W1", "item" (one row per item), "mlp1.weight".
    """

    @property
    def group_names(self) -> tuple[str, ...]:
        """Names of the groups of the model's arrays, such as ("user", "item", "mlp1", "mlp2").

        A protection may give each group its own epsilon. The part of an array's name before the
        first dot is the name of its group.
        """
        ...

    @property
    def tuned_values(self) -> Mapping[str, Any]:
        """Values of system settings, by name, with which the unprotected model recommends well.

        They replace the paper's values if an audit sets ``learns`` to true. By default there are
        none.
        """
        return {}

    def get_param_shapes(self, sizes: DataSizes) -> dict[str, tuple[int, ...]]:
        """Returns the shape of every array of the model, by name, for data of these sizes."""
        ...

    def init_model(self, sizes: DataSizes, rng: np.random.Generator) -> dict[str, NDArray[Any]]:
        """Draws the initial model with ``rng``, as float32 arrays by name."""
        ...

    def init_user_vectors(self, streams: Streams) -> NDArray[np.float32]:
        """Draws the initial private user vector of each of n devices, shape (n, d, 1).

        Only for systems whose user vectors never leave the device. The vector then takes the place
        of the broadcast matrix "user.E", and the number 1 takes the place of the user's features.
        """
        ...

    def train(
        self, broadcast: Broadcast, clients: Clients, local: LocalSettings, compute: Machine
    ) -> dict[str, Component]:
        """Trains the broadcast model on every device, and returns the trained arrays by name.

        There is one component per named array of the model, for all devices. A device's result
        depends only on its own row of ``clients`` and on the broadcast. A device without
        interactions returns the broadcast model, with the noise between epochs if there is any. If
        the device has its own "user.E" (``user_embeddings``), this array takes the place of the
        broadcast one.
        """
        # Components are stored in full (``Dense``), except for the item table. Only the trained
        # rows of the item table are stored; the remaining rows are those of the broadcast table
        # (``SparseRows``) or, if ``local.epoch_noise`` has noise for the items, those of a noisy
        # table (``OverlaidTables``).
        ...

    def compute_user_vectors(self, model: Broadcast, clients: Clients) -> Floats:
        """Computes each user's vector from ``model`` and the user's data, shape (n, d).

        d is the length of a row of the item table.
        """
        ...

    def score(self, model: Broadcast, clients: Clients) -> Floats:
        """Computes scores of all items for each device's user, shape (n, n_items)."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundClaim:
    """A privacy claim about one round, made by the authors of a protection.

    ``epsilon``: epsilon of the claim; infinite if the authors state no number.
    ``unit``: the data that the claim protects, such as one interaction.
    ``statement``: the claim in one or two sentences, in this project's words.
    ``positive_delta``: a delta above 0, at which the claim is compared with bounds in addition to
        delta 0; 0 if it is compared only at delta 0.
    ``unstated_protection``: description of a part of the audited protection that this project chose
        because the authors do not state it; "" if there is none. No bound refutes a claim with such
        a part.
    """

    epsilon: float
    unit: Unit
    statement: str
    positive_delta: float = 0.0
    unstated_protection: str = ""


class Protection(Protocol):
    """Privacy measures of a device, which change its data, its training or its upload.

    Protections are frozen dataclasses whose fields are settings from a paper. The default methods
    leave features, training and upload unchanged, return no randomizer, and return an infinite
    epsilon.

    ``noise_setting``: names of the fields that determine the amount of noise; None if there is no
        noise.
    """

    noise_setting: ClassVar[NoiseSetting | None] = None
    """Names of the fields that determine the amount of noise; None if there is no noise."""

    @property
    def tuned_values(self) -> Mapping[str, Any]:
        """Values of system settings, by name, with which the protected model recommends well.

        They override ``Learner.tuned_values``. By default there are none, or only ``private_user``
        = False if the protection perturbs users' features.
        """
        # A model whose user vectors stay on the device does not use features.
        return {} if self.get_event_per_attribute() is None else {"private_user": False}

    def prepare_data(self, clients: Clients) -> Clients:
        """Returns the data on which clients train, such as perturbed features.

        The method is called once, before the first round. By default the data are unchanged.
        """
        return clients

    def adapt_training(
        self, local: LocalSettings, shapes: Mapping[str, tuple[int, ...]]
    ) -> LocalSettings:
        """Returns the settings of the local training, changed as the protection requires.

        ``local``: settings without the protection.
        ``shapes``: shapes of the model's components (named arrays), by name.
        """
        return local

    def protect(
        self, upload: Mapping[str, Component], broadcast: Broadcast, clients: Clients
    ) -> dict[str, Component]:
        """Computes the messages that devices send in place of their trained models.

        ``upload``: trained models of all devices, one component per named array of the model.
        ``broadcast``: the model that the devices received.

        The messages have the names of ``upload``. Randomness comes from ``clients.streams``.
        """
        return dict(upload)

    def make_claims(self, groups: tuple[str, ...]) -> tuple[RoundClaim, ...]:
        """Returns the authors' privacy claims for a model with these groups of arrays.

        ``groups`` are names such as "user" and "item".
        """
        ...

    def get_entry_randomizer(self, group: str) -> Mechanism | None:
        """Returns the randomizer of one entry of the arrays in ``group``, such as "item".

        None if such entries are sent without noise.
        """
        return None

    def get_upload_randomizer(self, sizes: Mapping[str, int]) -> Mechanism | None:
        """Returns the randomizer of a whole upload; None if the protection has no such randomizer.

        The randomizer accepts every possible upload as input. ``sizes`` has the number of entries
        of an upload per group of arrays, such as "item".
        """
        return None

    def get_upload_epsilon(self, sizes: Mapping[str, int]) -> float:
        """Returns the epsilon of a whole upload at delta 0; infinite if no finite epsilon holds.

        ``sizes`` has the number of entries of an upload per group of arrays, such as "item".
        """
        return math.inf

    def get_row_change_probability(self, n_items: int) -> float:
        """Returns the probability that the protection changes a row that training left unchanged.

        The row is one of the item table. ``n_items`` is the number of items in the catalogue.
        """
        return 0.0

    def get_event_per_attribute(self) -> dp.DpEvent | None:
        """Returns the accounting event of one user attribute, such as gender, in a whole training.

        None if the protection has no own measure for attributes: the upload's event then applies.
        """
        return None

    @property
    def settings(self) -> Mapping[str, float]:
        """Settings that the adversary knows: all fields that are numbers or booleans, by name."""
        return get_numbers(self)


class Route(Protocol):
    """Route by which uploads reach the server, such as through a shuffler; it limits what an
    adversary sees of them.
    """

    @property
    def vantage(self) -> Vantage:
        """Strongest view of the uploads that any party has if all follow the protocol."""
        ...

    def get_event(self, local: dp.DpEvent, epsilon: float, n_senders: int) -> dp.DpEvent:
        """Returns the accounting event of one round, from the event ``local`` of one upload, for an
        adversary with the server's view.

        ``local``: event of every sender's own upload, returned by default.
        ``epsilon``: epsilon of one whole upload at delta 0; infinite if no finite epsilon holds.
        ``n_senders``: number of senders in the round.
        """
        return local
