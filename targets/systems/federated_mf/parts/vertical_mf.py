"""Vertical federated matrix factorization: parties share user embeddings, keep those of items."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fedrec_auditor.targets.components import Dense, Floats
from fedrec_auditor.targets.compute import Compute
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.settings import check_settings, whole_or_none
from fedrec_auditor.targets.spill import Spill
from fedrec_auditor.targets.streams import Streams
from fedrec_auditor.targets.systems.base import DEFAULT, Model, Progress, Run
from fedrec_auditor.targets.systems.federated_mf.parts.rating_parties import RatingParties
from fedrec_auditor.targets.systems.federated_mf.parts.sgd_mf import start
from fedrec_auditor.targets.transcript import Broadcast, Round, Transcript, Uploads


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

    def run(
        self,
        interactions: Interactions,
        rng: np.random.Generator,
        progress: Progress | None = None,
        compute: Compute = DEFAULT,
    ) -> Run:
        """Train; every round's broadcast and all parties' messages are kept.

        Memory beside the transcript is some 5 s tables of user embeddings (n x p float32).
        """
        parties = self.parted(interactions, rng)
        n, m = interactions.n_users, interactions.n_items
        users: Floats = start(rng.random((n, self.factors)), self.bound)
        own = self.first(parties, np.diff(parties.owned))
        descent, spill, rounds = self.descent(n), Spill(compute), []
        user_pace, item_pace = parties.by_user(), parties.by_item(weighted=True)
        for number in range(self.rounds):
            versions, own = descent.train(
                np.tile(users, (parties.count, 1)),
                own,
                parties.ratings,
                parties.coins,
                user_pace=user_pace,
                item_pace=item_pace,
                first=number * self.local_steps,
                count=self.local_steps,
            )
            sent = versions.reshape(parties.count, n, self.factors)
            uploads = Uploads(np.arange(parties.count), {"users": Dense(sent)})
            model = {"users": users}
            rounds.append(spill.keep(Round(broadcast=model, uploads=uploads)))
            users = np.tensordot(parties.weights, sent, 1).astype(np.float32)
            if progress is not None:
                progress(number + 1, self.rounds)
        _, own = descent.train(
            np.tile(users, (parties.count, 1)),
            own,
            parties.ratings,
            parties.coins,
            user_pace=user_pace,
            item_pace=item_pace,
            first=self.steps,
            count=self.tuning,
            joint=False,
        )
        items = np.empty((m, self.factors), dtype=np.float32)
        items[parties.order] = own
        release: dict[str, Any] = {"users": users, "items": items}
        transcript = Transcript(
            public=self.public(interactions, parties.count),
            rounds=tuple(rounds),
            release=release,
        )
        return Run(transcript=transcript, model=Model(arrays=release))

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
        return Uploads(owners, {"users": Dense(sent[:, None, :])})
