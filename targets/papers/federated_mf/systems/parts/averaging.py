"""Parties that train in rounds, after each of which the server averages what they share."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedrec_auditor.targets.components import Component, Dense, Floats, Kind
from fedrec_auditor.targets.compute import Compute, one_thread
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.papers.federated_mf.systems.parts.party_mf import Party, PartyMf
from fedrec_auditor.targets.papers.federated_mf.systems.parts.sgd_mf import start
from fedrec_auditor.targets.systems.system import Trained, Training
from fedrec_auditor.targets.transcript import Round, Uploads


@dataclass(frozen=True, kw_only=True)
class Averaging(PartyMf):
    """T rounds of T' local steps in every party; the next model is the mean of what they send.

    Members say which embeddings are shared, "users" or "items" (``shares``), under which name they
    are sent (``component``), how a party trains and what is done in the end.
    """

    shares: ClassVar[str]
    component: ClassVar[str]

    @abstractmethod
    def local(self, party: Party, shared: Floats, number: int) -> tuple[Floats, Floats]:
        """After the steps of a round: the party's version of what is shared, and its own rows."""

    @abstractmethod
    def broadcast(self, shared: Floats, first: Floats) -> dict[str, Floats]:
        """What the server tells all parties, of the shared embeddings as they are and began."""

    @abstractmethod
    def finish(self, parties: list[Party], shared: Floats, first: Floats) -> Trained:
        """What the parties do after the last round, and what is published."""

    def train(
        self, interactions: Interactions, rng: np.random.Generator, compute: Compute
    ) -> Training:
        """Every round's broadcast and all parties' messages.

        Memory beside the transcript is 2 s + 1 tables of shared embeddings.
        """
        rows = {"users": interactions.n_users, "items": interactions.n_items}[self.shares]
        first = shared = start(rng.random((rows, self.factors)), self.bound)
        parties = self.parted(interactions, shared, rng)
        with one_thread():
            for number in range(self.rounds):
                sent = self.sent(parties, shared, number)
                uploads = Uploads(np.arange(len(parties)), {self.component: sent})
                yield Round(broadcast=self.broadcast(shared, first), uploads=uploads)
                shared = self.merge(shared, sent, parties, number)
            return self.finish(parties, shared, first)

    def sent(self, parties: list[Party], shared: Floats, number: int) -> Component:
        """Every party's version of the shared embeddings after its local steps."""
        out = np.empty((len(parties), *shared.shape), np.float32)
        for k, party in enumerate(parties):
            out[k], party.own = self.local(party, shared, number)
        return Dense(out, Kind.MODEL)

    def merge(self, shared: Floats, sent: Component, parties: list[Party], number: int) -> Floats:
        """The next shared embeddings: the weighted mean of all versions."""
        weights = np.array([party.weight for party in parties])
        tables = sent.dense(np.arange(len(sent)))
        return np.asarray(np.tensordot(weights, tables, 1), dtype=np.float32)
