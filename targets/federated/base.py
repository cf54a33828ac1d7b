"""Parts of a federated system: a learner, a protection of uploads, and a route to the server."""

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
from fedrec_auditor.targets.settings import Knob, numbers
from fedrec_auditor.targets.streams import Streams
from fedrec_auditor.targets.transcript import Broadcast


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """Numbers of items and of a user's features, on which the sizes of a model depend."""

    n_items: int
    n_user_features: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Clients:
    """Devices of one round: what they hold, and their randomness.

    ``interactions`` has one row a device; ``features`` (n, d1) are its user's (Table I of the
    FedRec paper). ``objective`` is where a linear term's coefficients are drawn, if not in
    ``streams``: what a device keeps from round to round. ``own`` (n, d, d1) is each device's own
    "user.E", where that is not broadcast.
    """

    interactions: Interactions
    features: Floats
    streams: Streams
    objective: Streams | None = None
    own: Floats | None = None

    def __len__(self) -> int:
        return self.interactions.n_users

    def take(self, devices: NDArray[np.integer[Any]]) -> Clients:
        """These devices."""
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
        """Rows ``values`` (nnz, d) of tables, of which client i has ``ids[indptr[i]:indptr[i+1]]``.

        They are what the whole tables would have there: an entry draws by its place in the table.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalTraining:
    """Local training of a device: minibatches of its positives and sampled negatives.

    ``negatives`` is q of "1 : q", drawn once an upload, without the user's own items; every epoch
    visits all examples in a new order, in batches of ``batch``. ``linear_term`` is added to the
    loss: by component, the scale of the Laplace draws that are its coefficients (objective
    perturbation), divided by the number of examples. ``noise`` is what a component goes through
    after every epoch but the last, all of its entries, in every device, also in one without
    examples: what is sent of the last epoch is the protection's.
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
    with their group before a dot: "user.W1", "item" (one row an item), "mlp1.weight".
    """

    @property
    def groups(self) -> tuple[str, ...]:
        """Groups of components in order, such as ("user", "item", "mlp1", "mlp2")."""
        ...

    @property
    def learning(self) -> Mapping[str, Any]:
        """Settings of a composition under which it learns, unprotected, as well as elsewhere."""
        return {}

    def shapes(self, catalogue: Catalogue) -> dict[str, tuple[int, ...]]:
        """Shape of every component."""
        ...

    def initial(self, catalogue: Catalogue, rng: np.random.Generator) -> dict[str, NDArray[Any]]:
        """The first model, float32."""
        ...

    def own(self, streams: Streams) -> NDArray[np.float32]:
        """The first "user.E" (n, d, 1) of devices that each keep one, for the feature 1."""
        ...

    def train(
        self, broadcast: Broadcast, clients: Clients, local: LocalTraining, compute: Compute
    ) -> dict[str, Component]:
        """Models of all devices after local training: ``Dense``, and ``Rows`` over the broadcast.

        A device's result depends on its own row of ``clients`` and on the broadcast only. A device
        without positives returns the broadcast, and its ``own`` "user.E" where it has one. With
        ``local.noise`` on the items, these rows are ``Overlaid`` on a table of noise.
        """
        ...

    def user_vectors(self, model: Broadcast, clients: Clients) -> Floats:
        """Vectors of users, (n, d), which stand beside an item's row of ``model``."""
        ...

    def score(self, model: Broadcast, clients: Clients) -> Floats:
        """Scores of all items, (n, n_items), as each device computes them from ``model``."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """Claim that the authors of a protection make for one round, in our words.

    ``epsilon`` is infinite where no number is promised. ``notable`` is a delta above 0 at which
    there is more to say, 0 where there is none. ``outside_model`` names what of the audited
    protection is not the authors', such as a distribution they do not print: whatever is found of
    it refutes no claim.
    """

    epsilon: float
    unit: Unit
    statement: str
    notable: float = 0.0
    outside_model: str = ""


class Protection(Protocol):
    """Protection on the device: of its features, its training, and its upload.

    Protections are frozen dataclasses whose fields are the paper's settings. A subclass inherits
    features, training and upload as they are, no distribution of any, and no epsilon.
    """

    privacy: ClassVar[Knob | None] = None
    """The settings that buy privacy."""

    @property
    def learning(self) -> Mapping[str, Any]:
        """Changes to the settings of a composition under which the learner learns.

        Features that it perturbs are there to be trained on.
        """
        return {} if self.attribute() is None else {"private_user": False}

    def prepare(self, clients: Clients) -> Clients:
        """Data that the device trains on, for a whole training."""
        return clients

    def training(
        self, local: LocalTraining, shapes: Mapping[str, tuple[int, ...]]
    ) -> LocalTraining:
        """Local training of a model of these components."""
        return local

    def protect(
        self, upload: Mapping[str, Component], broadcast: Broadcast, clients: Clients
    ) -> dict[str, Component]:
        """Messages instead of the trained models. Randomness comes from ``clients.streams``."""
        return dict(upload)

    def promises(self, groups: tuple[str, ...]) -> tuple[Promise, ...]:
        """Claims on a model of these groups."""
        ...

    def coordinate(self, group: str) -> Mechanism | None:
        """Randomizer of an entry of a component of ``group``; None if it is sent as it is."""
        return None

    def upload(self, sizes: Mapping[str, int]) -> Mechanism | None:
        """Randomizer of a whole upload whose groups have so many entries.

        It must cover every pair of uploads; None where nothing does.
        """
        return None

    def spent(self, sizes: Mapping[str, int]) -> float:
        """The pure epsilon of a whole upload; infinite where there is none."""
        return math.inf

    def stirred(self, n_items: int) -> float:
        """The chance that an item's row moves of which training left every number alone."""
        return 0.0

    def attribute(self) -> dp.DpEvent | None:
        """Event of one attribute of the user in a whole training; None if it costs as all do."""
        return None

    @property
    def settings(self) -> Mapping[str, float]:
        """Its public settings by name, for the transcript: all fields that are numbers."""
        return numbers(self)


class Route(Protocol):
    """Way of uploads to the server: who sees them, and the event an accountant charges for it."""

    @property
    def vantage(self) -> Vantage:
        """The strongest vantage of anyone who keeps to the protocol."""
        ...

    def event(self, local: dp.DpEvent, epsilon: float, n_senders: int) -> dp.DpEvent:
        """Event of this vantage for one round in which every sender pays ``local``.

        ``epsilon`` is the pure epsilon of one whole upload, infinite where there is none. A
        subclass inherits the local event: what is seen is a function of the uploads.
        """
        return local
