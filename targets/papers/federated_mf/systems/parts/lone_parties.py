"""Parties that train without each other and publish what they have: central systems with one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.components import Component, Dense, Ints, Kind, Rows
from fedrec_auditor.targets.compute import Compute, one_thread
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.papers.federated_mf.systems.parts.noisy_items import NoisyItems
from fedrec_auditor.targets.papers.federated_mf.systems.parts.sgd_mf import start
from fedrec_auditor.targets.streams import Streams
from fedrec_auditor.targets.systems.system import Trained, Training
from fedrec_auditor.targets.transcript import Broadcast, Round, Uploads


@dataclass(frozen=True, kw_only=True)
class LoneParties(NoisyItems):
    """T T' local steps on both tables, then one message: U^(k) and V_k, published.

    Section 4.3: local-only parties never communicate while they train; the central baselines are
    the case of one party, s = 1. The message is "users" (n, p) and "items" (m, p), of which the
    party's own rows are sent. ``one_party`` says that a member is such a central one.
    """

    one_party: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.one_party and self.parties != 1:
            raise InputError(
                f"Expected parties=1, for {self.name} is central, got parties="
                f"{self.parties!r}. Ask local-only for several."
            )

    def train(
        self, interactions: Interactions, rng: np.random.Generator, compute: Compute
    ) -> Training:
        """One round, in which every party publishes what it has trained by itself."""
        parties = self.parted(interactions, None, rng)
        n, m, p = interactions.n_users, interactions.n_items, self.factors
        versions, items = np.empty((len(parties), n, p), np.float32), np.empty((m, p), np.float32)
        owner = np.empty(m, np.int64)
        with one_thread():
            for k, party in enumerate(parties):
                versions[k], party.own = self.descent(n).train(
                    start(party.rng.random((n, p)), self.bound),
                    party.own,
                    party.ratings,
                    party.rng,
                    user_scale=party.step_scale,
                    item_scale=party.step_scale,
                    count=self.steps,
                )
                items[party.members], owner[party.members] = party.own, k
        order = np.concatenate([party.members for party in parties])
        rows = Rows(
            indptr=np.cumsum([0, *(len(party.members) for party in parties)]),
            ids=order,
            values=items[order],
            count=m,
            kind=Kind.MODEL,
        )
        parts: dict[str, Component] = {"users": Dense(versions, Kind.MODEL), "items": rows}
        yield Round(broadcast=None, uploads=Uploads(np.arange(len(parties)), parts))
        arrays: dict[str, NDArray[Any]] = {"users": versions, "items": items, "owner": owner}
        return Trained(arrays, arrays)

    @property
    def length(self) -> int:
        """One round, whatever the number of steps before it."""
        return 1

    def messages(
        self, profiles: Interactions, owners: Ints, broadcast: Broadcast | None, streams: Streams
    ) -> dict[str, Component]:
        """What the party publishes: (1, p) and (m, p)."""
        users, items = self.alone(
            profiles.take(owners),
            streams,
            self.steps,
            lambda _, part, own: self.drawn_items(*part.shape, own),
        )
        return {"users": Dense(users[:, None, :], Kind.MODEL), "items": Dense(items, Kind.MODEL)}
