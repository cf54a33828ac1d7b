"""PerFedRec as released: one step of Adam, noise on 100 rows of items, the user's row in plain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

from fedrec_auditor.accountants.events import dp
from fedrec_auditor.accountants.statements.scope import Scope, Unit, Vantage
from fedrec_auditor.targets.components import Component, Dense, Floats, Kind
from fedrec_auditor.targets.compute import Compute
from fedrec_auditor.targets.learners.base import Clients, Learner
from fedrec_auditor.targets.learners.light_gcn import LightGcn
from fedrec_auditor.targets.mechanisms.base import Mechanism
from fedrec_auditor.targets.mechanisms.identity import Identity
from fedrec_auditor.targets.protections.base import Protection
from fedrec_auditor.targets.protections.laplace_rows import LaplaceRows
from fedrec_auditor.targets.settings import Positive, Whole
from fedrec_auditor.targets.systems.base import Population
from fedrec_auditor.targets.systems.fed_adam import FedAdam
from fedrec_auditor.targets.systems.federated import Federated
from fedrec_auditor.targets.transcript import Broadcast, Uploads

_LEARNER, _PROTECTION = LightGcn(edge_dropout=0.1), LaplaceRows()


@dataclass(frozen=True, kw_only=True)
class PerFedRec(Federated):
    """PerFedRec (Luo et al., CIKM 2022) as released: 128 users a round send all that they have.

    A device takes one step of Adam, at a rate of 1e-4, on its items and a negative for each, and
    sends the item table, with noise on 100 rows drawn at random, and its own row of the user table
    as it is, unless ``sends_user`` is off. Moments begin at 0 for each device, as on devices of
    their own; in the code all share one optimizer. ``rounds`` are such that a user of MovieLens
    100K is drawn as often as one of MovieLens 1M in the 400 of the code. There is one model for
    all where the code has one a cluster of users, too; it changes nothing of what a device sends.

    >>> import numpy as np
    >>> from fedrec_auditor.targets.datasets.synthetic import Synthetic
    >>> data = Synthetic(n_users=20, n_items=200, profile=4).load()
    >>> run = PerFedRec(rounds=1).run(data, np.random.default_rng(0))
    >>> {name: part.shape for name, part in run.transcript.rounds[0].uploads.components.items()}
    {'item': (200, 64), 'user': (64,)}
    """

    learner: Learner = _LEARNER
    protection: Protection = _PROTECTION
    rounds: Annotated[Whole, "rounds of a training"] = 62
    cohort: Annotated[Whole, "users a round"] = 128
    epochs: Annotated[Whole, "passes of a device over its examples, a round"] = 1
    batch: Annotated[Whole, "examples a step of a device"] = 2**20
    negatives: Annotated[Whole, "items that were not met, drawn an interaction"] = 1
    learning_rate: Annotated[Positive, "size of a device's step"] = 1e-4
    private_user: bool = True
    sends_user: Annotated[bool, "whether the user's row is sent, without noise"] = True

    place: ClassVar[str] = "released code, PerFedRec.py:81-113"

    @property
    def learning(self) -> Mapping[str, Any]:  # type: ignore[override]
        """A hundred times the rate, and a server that steps as far as the mean points."""
        return {
            "learning_rate": 0.01,
            "server": "adam",
            "server_rate": 0.05,
            "learner": {"dimension": 16},
        }

    def senders(self, n_users: int) -> int:
        """The cohort, or all users where they are fewer."""
        return min(self.cohort, n_users)

    def mechanism(self, scope: Scope, population: Population) -> Mechanism | None:
        """The user's row is bare: it moves if the user has met anything, and only then."""
        whole = scope.unit in (Unit.COORDINATE, Unit.USER, Unit.REPORT) and not scope.is_presence
        if self.sends_user and whole and scope.vantage is Vantage.SERVER:
            return Identity()
        return super().mechanism(scope, population)

    def event(self, scope: Scope, population: Population) -> dp.DpEvent:
        """Nothing bounds what the user's row tells."""
        return Identity().event() if self.sends_user else super().event(scope, population)

    def step(self, model: Broadcast, uploads: Uploads, moments: FedAdam) -> Broadcast:
        """The mean of the item tables."""
        parts = {name: uploads.components[name] for name in model}
        return super().step(model, replace(uploads, components=parts), moments)

    def _send(
        self, clients: Clients, broadcast: Broadcast, compute: Compute
    ) -> tuple[dict[str, Component], Floats | None]:
        """The item table, and the user's row beside it."""
        sent, own = super()._send(clients, broadcast, compute)
        if self.sends_user and own is not None:
            sent["user"] = Dense(own[:, :, 0], Kind.VECTOR)
        return sent, own
