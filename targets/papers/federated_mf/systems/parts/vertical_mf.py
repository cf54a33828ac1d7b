"""Vertical federated matrix factorization: parties share user embeddings, keep those of items."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedrec_auditor.targets.components import Component, Dense, Floats, Ints, Kind
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.papers.federated_mf.systems.parts.averaging import Averaging
from fedrec_auditor.targets.papers.federated_mf.systems.parts.party_mf import Party
from fedrec_auditor.targets.papers.federated_mf.systems.parts.rating_parties import RatingParties
from fedrec_auditor.targets.settings import check_settings, whole_or_none
from fedrec_auditor.targets.streams import Streams
from fedrec_auditor.targets.systems.system import Trained
from fedrec_auditor.targets.transcript import Broadcast


@dataclass(frozen=True, kw_only=True)
class VerticalMf(RatingParties, Averaging):
    """Figure 3a: T rounds of T' local steps, then U is the mean of all U^(k), weighted by m_k/m.

    ``tuning`` is kappa, the last steps on item embeddings alone (0 in the vanilla paradigm). A
    message is U^(k), n x p in float32 as in the paper's Figure 2; the broadcast is U. In the end
    both tables are published, for use in public services (section 4).
    """

    tuning: int = 0

    shares = "users"
    component = "users"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_settings(self, tuning=whole_or_none)

    def local(self, party: Party, shared: Floats, number: int) -> tuple[Floats, Floats]:
        """U^(k); own items move m_k/m as fast (equation 4)."""
        return self.descent(len(shared)).train(
            shared,
            party.own,
            party.ratings,
            party.rng,
            user_scale=party.step_scale,
            item_scale=party.step_scale * party.weight,
            first=number * self.local_steps,
            count=self.local_steps,
        )

    def broadcast(self, shared: Floats, first: Floats) -> dict[str, Floats]:
        """U as it is."""
        return {"users": shared}

    def finish(self, parties: list[Party], shared: Floats, first: Floats) -> Trained:
        """Items are tuned to the last U, and both tables published."""
        n = len(shared)
        items = np.empty((sum(len(party.members) for party in parties), self.factors), np.float32)
        for party in parties:
            _, items[party.members] = self.descent(n, joint=False).train(
                shared,
                party.own,
                party.ratings,
                party.rng,
                user_scale=0.0,
                item_scale=party.step_scale * party.weight,
                first=self.steps,
                count=self.tuning,
            )
        release = {"users": shared, "items": items}
        return Trained(release, release)

    def messages(
        self, profiles: Interactions, owners: Ints, broadcast: Broadcast | None, streams: Streams
    ) -> dict[str, Component]:
        """U^(k), (1, p).

        A party of several users sends such a table for all of them, so this is its part about one
        if all others were not there. The broadcast has one row a profile, or one for all; it is
        projected as embeddings are, or a malicious server could make gradients of any length.
        """
        users = self.received(broadcast, profiles)[owners].astype(np.float32)
        users = self.descent(1).clipping.project(users)
        sent, _ = self.alone(
            profiles.take(owners),
            streams,
            self.local_steps,
            lambda block, part, own: (users[block], self.drawn_items(*part.shape, own)[1]),
        )
        return {"users": Dense(sent[:, None, :], Kind.MODEL)}
