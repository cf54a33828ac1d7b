"""Parties that train without each other and publish what they have: central systems with one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.components import Component, Dense, Kind, Rows
from fedrec_auditor.targets.compute import Compute
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.streams import Streams
from fedrec_auditor.targets.systems.base import DEFAULT
from fedrec_auditor.targets.systems.federated_mf.parts.noisy_parties import NoisyParties
from fedrec_auditor.targets.systems.parts.system import Trained, Training
from fedrec_auditor.targets.transcript import Broadcast, Round, Uploads


@dataclass(frozen=True, kw_only=True)
class LoneParties(NoisyParties):
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

    @property
    def lengths(self) -> tuple[int, int]:
        """All steps are on both tables."""
        return self.steps, 0

    def train(
        self, interactions: Interactions, rng: np.random.Generator, compute: Compute
    ) -> Training:
        """One round, in which every party publishes what it has trained by itself."""
        parties = self.parted(interactions, rng)
        n, m = interactions.n_users, interactions.n_items
        stacked, own = self.descent(n).train(
            self.first(parties, np.full(parties.count, n)),
            self.first(parties, np.diff(parties.owned)),
            parties.ratings,
            parties.randomness,
            user_scale=parties.by_user(),
            item_scale=parties.by_item(weighted=False),
            count=self.steps,
        )
        versions = stacked.reshape(parties.count, n, self.factors)
        rows = Rows(indptr=parties.owned, ids=parties.order, values=own, count=m, kind=Kind.MODEL)
        parts: dict[str, Component] = {"users": Dense(versions, Kind.MODEL), "items": rows}
        yield Round(broadcast=None, uploads=Uploads(np.arange(parties.count), parts))
        items, owner = np.empty((m, self.factors), dtype=np.float32), np.empty(m, dtype=np.int64)
        items[parties.order] = own
        owner[parties.order] = np.repeat(np.arange(parties.count), np.diff(parties.owned))
        arrays = {"users": versions, "items": items, "owner": owner}
        return Trained(arrays, arrays)

    @property
    def length(self) -> int:
        """One round, whatever the number of steps before it."""
        return 1

    def upload(
        self,
        profiles: Interactions,
        broadcast: Broadcast | None,
        rng: np.random.Generator,
        size: int = 1,
        compute: Compute = DEFAULT,
    ) -> Uploads:
        """What parties publish that hold one user and all items each: (1, p) and (m, p)."""
        owners = np.repeat(np.arange(profiles.n_users), size)
        streams = Streams.spawn(rng, len(owners))
        users, items = self.alone(profiles.take(owners), None, streams, self.steps)
        n, m = len(owners), profiles.n_items
        rows = Rows(
            indptr=m * np.arange(n + 1),
            ids=np.tile(np.arange(m), n),
            values=items.reshape(-1, self.factors),
            count=m,
            kind=Kind.MODEL,
        )
        return Uploads(owners, {"users": Dense(users[:, None, :], Kind.MODEL), "items": rows})
