"""Protocols of the parts of a federated system: learner, protection of uploads, and route."""

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
from fedrec_auditor.targets.compute import Compute
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.mechanisms.base import Mechanism
from fedrec_auditor.targets.settings import NoiseSetting, float_fields
from fedrec_auditor.targets.streams import Streams
from fedrec_auditor.targets.transcript import Broadcast


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSizes:
    """Numbers of items and of user features, which determine the sizes of a model."""

    n_items: int
    n_user_features: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Clients:
    """Devices of one round: their data and their random streams.

    ``interactions``: interactions of the devices' users, one row per device.
    ``features``: features of each device's user (n, d1), from Table I of the FedRec paper.
    ``streams``: random streams of the devices, new in every round.
    ``linear_streams``: random streams for the coefficients of the linear term in the loss, the same
        in every round; None means that ``streams`` are used.
    ``user_emb``: each device's private parameter "user.E" (n, d, d1); None if "user.E" is
    broadcast.
    """

    interactions: Interactions
    features: Floats
    streams: Streams
    linear_streams: Streams | None = None
    user_emb: Floats | None = None

    def __len__(self) -> int:
        return self.interactions.n_users

    def subset(self, devices: NDArray[np.integer[Any]]) -> Clients:
        """Selects the devices with the indices ``devices``."""
        return Clients(
            interactions=self.interactions.take_users(devices),
            features=self.features[devices],
            streams=self.streams.take(devices),
            linear_streams=None
            if self.linear_streams is None
            else self.linear_streams.take(devices),
            user_emb=None if self.user_emb is None else self.user_emb[devices],
        )


class EpochNoise(Randomizer, Protocol):
    """Noise that a device adds to the entries of a component at the end of a local epoch."""

    def noisy_rows(
        self, values: NDArray[Any], streams: Streams, indptr: Ints, ids: Ints
    ) -> NDArray[Any]:
        """Adds noise to selected rows of the devices' tables.

        ``values``: the rows of all devices (nnz, d).
        ``streams``: random streams of the devices.
        ``indptr``: the rows of device i begin at ``indptr[i]`` and end before ``indptr[i + 1]``.
        ``ids``: position of each row in its table.

        The result equals these rows of the noisy full tables, because the noise of an entry depends
        on its position in the table.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalTraining:
    """Settings of a device's local training on minibatches of positives and sampled negatives.

    ``epochs``: passes over all examples, each in a new order.
    ``batch``: examples per minibatch.
    ``negatives``: number of sampled negatives per positive, drawn once per upload.
    ``learning_rate``: learning rate.
    ``optimizer``: "sgd" for plain gradient descent, or "adam".
    ``linear_scales``: scale of the Laplace noise from which the coefficients of a linear term in
        the loss are drawn (objective perturbation), by component. The loss of each example contains
        this term, divided by the number of examples.
    ``epoch_noise``: noise on all entries after every epoch except the last, by component. It is
        added on every device, even on one without examples. The protection adds the noise of the
        last epoch.
    """

    epochs: int = 5
    batch: int = 32
    negatives: int = 4
    learning_rate: float = 0.001
    optimizer: Literal["sgd", "adam"] = "sgd"
    linear_scales: Mapping[str, float] = field(default_factory=dict)
    epoch_noise: Mapping[str, EpochNoise] = field(default_factory=dict)


class Learner(Protocol):
    """A model with named components, trained on devices and averaged on the server.

    Learners are frozen dataclasses whose fields are the paper's settings. The name of a component
    begins with its group, followed by a dot if the group has several components: "user.W1", "item"
    (one row per item), "mlp1.weight".
    """

    @property
    def groups(self) -> tuple[str, ...]:
        """Names of the groups of components, in order, such as ("user", "item", "mlp1", "mlp2")."""
        ...

    @property
    def learning(self) -> Mapping[str, Any]:
        """Settings of a ``Composition`` with which an unprotected model recommends well.

        They are used if the user sets ``learns``.
        """
        return {}

    def param_shapes(self, catalogue: ModelSizes) -> dict[str, tuple[int, ...]]:
        """Returns the shape of every component, by name."""
        ...

    def init_model(
        self, catalogue: ModelSizes, rng: np.random.Generator
    ) -> dict[str, NDArray[Any]]:
        """Draws the initial model, as float32 arrays by component."""
        ...

    def init_user(self, streams: Streams) -> NDArray[np.float32]:
        """Draws the initial private "user.E" (n, d, 1) of each device, whose only feature is 1."""
        ...

    def train(
        self, broadcast: Broadcast, clients: Clients, local: LocalTraining, compute: Compute
    ) -> dict[str, Component]:
        """Trains the broadcast model on every device, and returns the devices' models by component.

        Components are ``Dense``, except the item table, which is stored as ``Rows`` over the
        broadcast. A device's result depends only on its own row of ``clients`` and on the
        broadcast. A device without positives returns the broadcast, and its ``user_emb`` "user.E"
        if it has one. If ``local.noise`` has noise for the items, the item table is stored as
        ``OverlaidTables`` over a table of noise.
        """
        ...

    def user_vectors(self, model: Broadcast, clients: Clients) -> Floats:
        """Computes user vectors (n, d) that are comparable with item rows of ``model``."""
        ...

    def score(self, model: Broadcast, clients: Clients) -> Floats:
        """Computes the scores of all items (n, n_items) on each device from ``model``."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """A claim that the authors of a protection make for one round, in this project's words.

    ``epsilon``: epsilon of the claim; infinite if the authors promise no number.
    ``unit``: unit that the promise hides.
    ``statement``: the promise in one or two sentences.
    ``further_delta``: a delta above 0 at which the claim is also judged; 0 if it is judged at delta
        0 only.
    ``outside_model``: a part of the audited protection that the authors do not state, such as a
        distribution that they do not print. No bound on the protection then refutes the claim.
    """

    epsilon: float
    unit: Unit
    statement: str
    further_delta: float = 0.0
    outside_model: str = ""


class Protection(Protocol):
    """Protection on the device: of its features, its local training, and its upload.

    Protections are frozen dataclasses whose fields are the paper's settings. The default methods
    leave features, training and upload unchanged, return no randomizer, and return an infinite
    epsilon.
    """

    privacy: ClassVar[NoiseSetting | None] = None
    """Names of the fields that set how much noise the protection adds; None if it adds no noise."""

    @property
    def learning(self) -> Mapping[str, Any]:
        """Changes to the learner's ``learning`` settings that the protection requires.

        Perturbed features, for example, require a learner that trains on features.
        """
        return {} if self.attribute_event() is None else {"private_user": False}

    def prepare_data(self, clients: Clients) -> Clients:
        """Prepares the data that the clients train on; called once, before the first round."""
        return clients

    def adapt_training(
        self, local: LocalTraining, shapes: Mapping[str, tuple[int, ...]]
    ) -> LocalTraining:
        """Returns the settings of the local training, as the protection changes them.

        ``local``: settings without the protection.
        ``shapes``: shapes of the model's components.
        """
        return local

    def protect(
        self, upload: Mapping[str, Component], broadcast: Broadcast, clients: Clients
    ) -> dict[str, Component]:
        """Computes the messages that replace the trained models in ``upload``.

        Randomness comes from ``clients.streams``.
        """
        return dict(upload)

    def promises(self, groups: tuple[str, ...]) -> tuple[Promise, ...]:
        """Returns the authors' claims on a model with these groups of components."""
        ...

    def coordinate(self, group: str) -> Mechanism | None:
        """Returns the randomizer of one entry of a component of ``group``, or None.

        None means that entries of this group are sent without noise.
        """
        return None

    def randomizer(self, sizes: Mapping[str, int]) -> Mechanism | None:
        """Returns the randomizer of a whole upload, or None.

        The randomizer must cover every pair of uploads; the result is None if no randomizer does.
        ``sizes`` is the number of entries of an upload, by group.
        """
        return None

    def upload_cost(self, sizes: Mapping[str, int]) -> float:
        """Computes the pure epsilon of a whole upload; infinite if it has none.

        ``sizes`` is the number of entries of the upload, by group.
        """
        return math.inf

    def moved_row_chance(self, n_items: int) -> float:
        """Probability that the protection changes an item's row that training left unchanged."""
        return 0.0

    def attribute_event(self) -> dp.DpEvent | None:
        """Returns the privacy event of one attribute of the user in a whole training, or None.

        None means that the event of an upload applies.
        """
        return None

    @property
    def settings(self) -> Mapping[str, float]:
        """Public settings for the transcript, by name: all fields that are numbers."""
        return float_fields(self)


class Route(Protocol):
    """Way in which uploads reach the server. It determines the vantage and the privacy event."""

    @property
    def vantage(self) -> Vantage:
        """Strongest vantage among all parties that follow the protocol."""
        ...

    def event(self, local: dp.DpEvent, epsilon: float, n_senders: int) -> dp.DpEvent:
        """Returns the privacy event of one round at this route's vantage.

        ``local``: event of every sender's own upload.
        ``epsilon``: pure epsilon of one whole upload; infinite if it has none.
        ``n_senders``: number of senders in the round.

        By default, the result is the local event, because the adversary sees a function of the
        uploads.
        """
        return local
