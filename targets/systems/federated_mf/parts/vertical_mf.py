"""Vertical federated matrix factorization: parties share user embeddings, keep those of items."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedrec_auditor.targets.components import Dense, Floats, Kind
from fedrec_auditor.targets.compute import Compute
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.settings import check_settings, whole_or_none
from fedrec_auditor.targets.streams import Streams
from fedrec_auditor.targets.systems.base import DEFAULT
from fedrec_auditor.targets.systems.federated_mf.parts.rating_parties import RatingParties
from fedrec_auditor.targets.systems.federated_mf.parts.sgd_mf import start
from fedrec_auditor.targets.systems.parts.system import Trained, Training
from fedrec_auditor.targets.transcript import Broadcast, Round, Uploads


@dataclass(frozen=True, kw_only=True)
class VerticalMf(RatingParties):
    """Figure 3a: T rounds of T' local steps, then U is the mean of all U^(k), weighted by m_k/m.

    ``tuning`` is kappa, the last steps on item embeddings alone (0 in the vanilla paradigm). A
    message is U^(k), n x p in float32 as in the paper's Figure 2; the broadcast is U. In the end
    both tables are published, for use in public services (section 4).
    """

    tuning: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_settings(self, tuning=whole_or_none)

    def train(
        self, interactions: Interactions, rng: np.random.Generator, compute: Compute
    ) -> Training:
        """Every round's broadcast and all parties' messages.

        Memory beside the transcript is some 5 s tables of user embeddings (n x p float32).
        """
        parties = self.parted(interactions, rng)
        n, m = interactions.n_users, interactions.n_items
        users: Floats = start(rng.random((n, self.factors)), self.bound)
        own, descent = self.first(parties, np.diff(parties.owned)), self.descent(n)

        def steps(first: int, count: int, joint: bool) -> tuple[Floats, Floats]:
            return descent.train(
                np.tile(users, (parties.count, 1)),
                own,
                parties.ratings,
                parties.randomness,
                user_scale=parties.by_user(),
                item_scale=parties.by_item(weighted=True),
                first=first,
                count=count,
                joint=joint,
            )

        for number in range(self.rounds):
            versions, own = steps(number * self.local_steps, self.local_steps, True)
            sent = versions.reshape(parties.count, n, self.factors)
            uploads = Uploads(np.arange(parties.count), {"users": Dense(sent, Kind.MODEL)})
            yield Round(broadcast={"users": users}, uploads=uploads)
            users = np.tensordot(parties.weights, sent, 1).astype(np.float32)
        _, own = steps(self.steps, self.tuning, False)
        items = np.empty((m, self.factors), dtype=np.float32)
        items[parties.order] = own
        release = {"users": users, "items": items}
        return Trained(release, release)

    def upload(
        self,
        profiles: Interactions,
        broadcast: Broadcast | None,
        rng: np.random.Generator,
        size: int = 1,
        compute: Compute = DEFAULT,
    ) -> Uploads:
        """First messages of parties that hold one user and all items each: (1, p).

        A party of several users sends such a table for all of them, so this is its part about one
        if all others were not there. The broadcast has one row a profile, or one for all; it is
        projected as embeddings are, or a malicious server could make gradients of any length.
        """
        owners = np.repeat(np.arange(profiles.n_users), size)
        users = self.received(broadcast, profiles)[owners].astype(np.float32)
        users = self.descent(1).clipping.project(users)
        streams = Streams.spawn(rng, len(owners))
        sent, _ = self.alone(profiles.take(owners), users, streams, self.local_steps)
        return Uploads(owners, {"users": Dense(sent[:, None, :], Kind.MODEL)})
