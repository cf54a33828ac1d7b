"""What every protection of an upload offers a federated system."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from fedrec_auditor.accountants.events import dp
from fedrec_auditor.accountants.statements import Unit
from fedrec_auditor.targets.components import Component
from fedrec_auditor.targets.learners.base import Clients, LocalTraining
from fedrec_auditor.targets.mechanisms.base import Mechanism
from fedrec_auditor.targets.settings import Knob, numbers
from fedrec_auditor.targets.transcript import Broadcast


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """What the authors of a protection say of one round, in our words.

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
    """What is done on the device: to its features, its training, and its upload.

    Protections are frozen dataclasses whose fields are the paper's settings. A subclass inherits
    features, training and upload as they are, no distribution of any, and no epsilon.
    """

    privacy: ClassVar[Knob | None] = None
    """The settings that buy privacy."""

    @property
    def learning(self) -> Mapping[str, Any]:
        """What it changes of the settings of a composition under which the learner learns.

        Features that it perturbs are there to be trained on.
        """
        return {} if self.attribute() is None else {"private_user": False}

    def prepare(self, clients: Clients) -> Clients:
        """What the device trains on, for a whole training."""
        return clients

    def training(
        self, local: LocalTraining, shapes: Mapping[str, tuple[int, ...]]
    ) -> LocalTraining:
        """How a device trains a model of these components."""
        return local

    def protect(
        self, upload: Mapping[str, Component], broadcast: Broadcast, clients: Clients
    ) -> dict[str, Component]:
        """What is sent instead of the trained model. Randomness comes from ``clients.streams``."""
        return dict(upload)

    def promises(self, groups: tuple[str, ...]) -> tuple[Promise, ...]:
        """What is said of a model of these groups."""
        ...

    def coordinate(self, group: str) -> Mechanism | None:
        """What randomizes an entry of a component of ``group``; None if it is sent as it is."""
        return None

    def upload(self, sizes: Mapping[str, int]) -> Mechanism | None:
        """What randomizes a whole upload whose groups have so many entries.

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
        """What one attribute of the user spends in a whole training, where it is less than all."""
        return None

    @property
    def settings(self) -> Mapping[str, float]:
        """Its public settings by name, for the transcript: all fields that are numbers."""
        return numbers(self)
