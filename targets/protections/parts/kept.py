"""What a protection keeps as it is unless it says otherwise."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from fedrec_auditor.targets.components import Component
from fedrec_auditor.targets.learners.base import Clients, LocalTraining
from fedrec_auditor.targets.mechanisms.base import Mechanism
from fedrec_auditor.targets.settings import numbers
from fedrec_auditor.targets.transcript import Broadcast

if TYPE_CHECKING:
    from dp_accounting import DpEvent


class Kept:
    """Features, training and upload as they are; no law, no epsilon."""

    def prepare(self, clients: Clients) -> Clients:
        """The device trains on what it has."""
        return clients

    def training(
        self, local: LocalTraining, shapes: Mapping[str, tuple[int, ...]]
    ) -> LocalTraining:
        """The device trains as it would without protection."""
        return local

    def protect(
        self, upload: Mapping[str, Component], broadcast: Broadcast, clients: Clients
    ) -> dict[str, Component]:
        """The device sends what it has trained."""
        return dict(upload)

    def coordinate(self, group: str) -> Mechanism | None:
        """None: an entry is sent as it is."""
        return None

    def upload(self, sizes: Mapping[str, int]) -> Mechanism | None:
        """None: there is no law that covers every pair of uploads."""
        return None

    def spent(self, sizes: Mapping[str, int]) -> float:
        """Infinite: no epsilon bounds an upload without noise."""
        return math.inf

    def attribute(self) -> DpEvent | None:
        """None: an attribute is worth what the upload is worth."""
        return None

    @property
    def settings(self) -> Mapping[str, float]:
        """All fields that are numbers."""
        return numbers(self)
