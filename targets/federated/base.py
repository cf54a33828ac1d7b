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
from fedrec_auditor.targets.settings import NoiseSetting, numbers
from fedrec_auditor.targets.streams import Streams
from fedrec_auditor.targets.transcript import Broadcast


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """Number of items and number of user features, which determine the sizes of a model."""

    n_items: int
    n_user_features: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Clients:
    """Devices of one round: their data and their randomness.

    ``interactions``: one row per device.
    ``features``: features of each device's user (n, d1), Table I of the FedRec paper.
    ``streams``: random streams of the devices.
    ``objective``: streams of the linear term's coefficients, kept from round to round; default
    streams.
    ``own``: each device's own "user.E" (n, d, d1), if it is not broadcast.
    """

    interactions: Interactions
    features: Floats
    streams: Streams
    objective: Streams | None = None
    own: Floats | None = None

    def __len__(self) -> int:
        return self.interactions.n_users

    def take(self, devices: NDArray[np.integer[Any]]) -> Clients:
        """The devices with these indices."""
        return Clients(
            interactions=self.interactions.take(devices),
            features=self.features[devices],
            streams=self.streams.take(devices),
            objective=None if self.objective is None else self.objective.take(devices),
            own=None if self.own is None else self.own[devices],
        )


class EpochNoise(Randomizer, Protocol):
    """Noise on the entries of a component at the end of a local epoch, drawn by the device."""

    def rows(self, values: NDArray[Any], streams: Streams, indptr: Ints, ids: Ints) -> NDArray[Any]:
        """Noisy rows ``values`` (nnz, d) of tables; client i has ``indptr[i + 1] - indptr[i]``
        rows.

        ``indptr``: the rows of client i begin at ``indptr[i]`` and end before ``indptr[i + 1]``.
        ``ids``: place of each row in its table.
        The result equals these rows of the whole noisy tables: the draw of an entry depends on its
        place in the table.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalTraining:
    """Local training of a device: minibatches of its positives and sampled negatives.

    ``epochs``: passes over all examples, each in a new order.
    ``batch``: examples per minibatch.
    ``negatives``: q of "1 : q", items without an interaction, drawn once per upload.
    ``learning_rate``: learning rate.
    ``optimizer``: plain gradient descent or Adam.
    ``linear_term``: by component, the scale of the Laplace draws that are its coefficients in the
    loss (objective perturbation), divided by the number of examples.
    ``noise``: by component, noise on all its entries after every epoch except the last, in every
    device, even without examples; the protection adds the noise of the last epoch.
    """

    epochs: int = 5
    batch: int = 32
    negatives: int = 4
    learning_rate: float = 0.001
    optimizer: Literal["sgd", "adam"] = "sgd"
    linear_term: Mapping[str, float] = field(default_factory=dict)
    noise: Mapping[str, EpochNoise] = field(default_factory=dict)


class Learner(Protocol):
    """A model with named components, trained on a device and averaged on the server.

    Learners are frozen dataclasses whose fields are the paper's settings. Component names begin
    with their group before a dot: "user.W1", "item" (one row per item), "mlp1.weight".
    """

    @property
    def groups(self) -> tuple[str, ...]:
        """Groups of components in order, such as ("user", "item", "mlp1", "mlp2")."""
        ...

    @property
    def learning(self) -> Mapping[str, Any]:
        """Settings of a composition with which an unprotected model learns as well as elsewhere."""
        return {}

    def shapes(self, catalogue: Catalogue) -> dict[str, tuple[int, ...]]:
        """Shape of every component."""
        ...

    def initial(self, catalogue: Catalogue, rng: np.random.Generator) -> dict[str, NDArray[Any]]:
        """Initial model, float32."""
        ...

    def own(self, streams: Streams) -> NDArray[np.float32]:
        """Initial private "user.E" (n, d, 1) of each device, for the feature 1."""
        ...

    def train(
        self, broadcast: Broadcast, clients: Clients, local: LocalTraining, compute: Compute
    ) -> dict[str, Component]:
        """Models of all devices after local training: ``Dense``, and ``Rows`` over the broadcast.

        A device's result depends only on its own row of ``clients`` and on the broadcast. A device
        without positives returns the broadcast, and its ``own`` "user.E" if it has one. With
        ``local.noise`` on the items, these rows are ``OverlaidTables`` on a table of noise.
        """
        ...

    def user_vectors(self, model: Broadcast, clients: Clients) -> Floats:
        """Vectors of users, (n, d), to be compared with an item's row of ``model``."""
        ...

    def score(self, model: Broadcast, clients: Clients) -> Floats:
        """Scores of all items, (n, n_items), as each device computes them from ``model``."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """Claim that the authors of a protection make for one round, in our words.

    ``epsilon``: infinite if no number is promised.
    ``unit``: unit that the promise hides.
    ``statement``: the promise in one or two sentences.
    ``notable``: a delta above 0 at which the claim is also judged; 0 without one.
    ``outside_model``: a part of the audited protection that is not the authors', such as a
    distribution that they do not print; then no bound on the protection refutes the claim.
    """

    epsilon: float
    unit: Unit
    statement: str
    notable: float = 0.0
    outside_model: str = ""


class Protection(Protocol):
    """Protection on the device: of its features, its training, and its upload.

    Protections are frozen dataclasses whose fields are the paper's settings. The defaults of a
    subclass leave features, training and upload unchanged, name no randomizer, and have no finite
    epsilon.
    """

    privacy: ClassVar[NoiseSetting | None] = None
    """Noise setting: the fields that set how much noise the protection adds."""

    @property
    def learning(self) -> Mapping[str, Any]:
        """Changes to the settings of a composition with which the learner learns.

        Perturbed features need a learner that trains on features.
        """
        return {} if self.attribute() is None else {"private_user": False}

    def prepare(self, clients: Clients) -> Clients:
        """Data that the clients train on; called once, before the first round."""
        return clients

    def training(
        self, local: LocalTraining, shapes: Mapping[str, tuple[int, ...]]
    ) -> LocalTraining:
        """Settings of the local training of a model with components of these shapes."""
        return local

    def protect(
        self, upload: Mapping[str, Component], broadcast: Broadcast, clients: Clients
    ) -> dict[str, Component]:
        """Messages that replace the trained models. Randomness comes from ``clients.streams``."""
        return dict(upload)

    def promises(self, groups: tuple[str, ...]) -> tuple[Promise, ...]:
        """The authors' claims on a model of these groups."""
        ...

    def coordinate(self, group: str) -> Mechanism | None:
        """Randomizer of one entry of a component of ``group``; None if it is sent without noise."""
        return None

    def upload(self, sizes: Mapping[str, int]) -> Mechanism | None:
        """Randomizer of a whole upload; ``sizes`` is its number of entries by group.

        The randomizer must cover every pair of uploads; the result is None if none does.
        """
        return None

    def spent(self, sizes: Mapping[str, int]) -> float:
        """Pure epsilon of a whole upload; infinite if there is none."""
        return math.inf

    def moved_row_chance(self, n_items: int) -> float:
        """Probability that protection changes an item's row which training left unchanged."""
        return 0.0

    def attribute(self) -> dp.DpEvent | None:
        """Event of one attribute of the user in a whole training; None for an upload's event."""
        return None

    @property
    def settings(self) -> Mapping[str, float]:
        """Public settings by name, for the transcript: all fields that are numbers."""
        return numbers(self)


class Route(Protocol):
    """Way of uploads to the server: its vantage, and the event that an accountant charges."""

    @property
    def vantage(self) -> Vantage:
        """Strongest vantage among all who follow the protocol."""
        ...

    def event(self, local: dp.DpEvent, epsilon: float, n_senders: int) -> dp.DpEvent:
        """Event of this vantage for one round in which every sender's own event is ``local``.

        ``epsilon`` is the pure epsilon of one whole upload, infinite if there is none. The default
        is the local event: the adversary sees a function of the uploads.
        """
        return local
