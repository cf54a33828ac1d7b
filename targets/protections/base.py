"""What every protection of an upload offers a federated system."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from targets.components import Component
from targets.learners.base import Clients, LocalTraining
from targets.mechanisms.base import Mechanism
from targets.transcript import Broadcast


class Protection(Protocol):
    """What is done on the device: to its features, its training, and its upload.

    Protections are frozen dataclasses whose fields are the paper's settings.
    """

    def prepare(self, clients: Clients) -> Clients:
        """What the device trains on (F-GERAI perturbs the features); most return it as it is."""
        ...

    def training(self, local: LocalTraining) -> LocalTraining:
        """How the device trains (objective perturbation sets a tilt); most return it as it is."""
        ...

    def protect(
        self, upload: Mapping[str, Component], broadcast: Broadcast, clients: Clients
    ) -> dict[str, Component]:
        """What is sent instead of the trained model."""
        ...

    def coordinate(self, group: str) -> Mechanism | None:
        """The law of one entry of a component of ``group``; None where it is not randomized."""
        ...

    def upload(self, sizes: Mapping[str, int]) -> Mechanism | None:
        """The law of a whole upload whose groups have so many entries; None where there is none.

        It must cover every pair of uploads.
        """
        ...

    @property
    def settings(self) -> Mapping[str, Any]:
        """Its public settings by name, for the transcript."""
        ...
