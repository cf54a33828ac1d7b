"""Horizontal federated matrix factorization that shares a noisy gradient in every step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.components import Component, Floats, Ints, Kind, Randomized, Rows
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.papers.federated_mf.systems.parts.descent import gradients
from fedrec_auditor.targets.papers.federated_mf.systems.parts.noise_rounds import Masked
from fedrec_auditor.targets.papers.federated_mf.systems.parts.noisy_horizontal import (
    NoisyHorizontal,
)
from fedrec_auditor.targets.papers.federated_mf.systems.parts.party_mf import (
    TRIM,
    Party,
)
from fedrec_auditor.targets.papers.federated_mf.systems.parts.sgd_mf import (
    explicit,
    item_gradients,
    project,
    rate_at,
    trim,
)
from fedrec_auditor.targets.streams import Streams
from fedrec_auditor.targets.transcript import Broadcast

_ROWS = 201  # purpose of a party's stream


@dataclass(frozen=True, kw_only=True)
class HflSynsgd(NoisyHorizontal):
    """HFL-synSGD: the moments accountant's epsilon for T noisy gradients of sampled rows.

    The paper's adaptation of DP-SGD (section 5.3), told in a sentence. In every one of ``rounds`` =
    1000 steps a party sends the noisy sum of its item gradients, and takes a step on its user
    embeddings without noise; the server divides by the average number of ratings of a user, steps
    on the mean weighted by n_k/n, and projects. Both embeddings start at random; in the end each
    party fine-tunes as in HFL-SGDMF. Gradients are bounded by embedding clipping, as there.
    """

    rounds: int = 1000
    local_steps: int = 1
    learning_rate: float = 0.1
    tuning: int = 1000
    tuning_rate: float = 0.1

    component = "noisy"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.local_steps != 1:
            raise InputError(
                f"Expected local_steps=1, got local_steps={self.local_steps!r}. Every step is "
                "shared here; choose hfl-sgdmf for several."
            )

    @property
    def joint(self) -> bool:
        """Also user embeddings move with the ratings, unless repaired per rating."""
        return self.adapted

    def sent(self, parties: list[Party], shared: Floats, number: int) -> Component:
        """Noisy sums of gradients, stored as the rows drawn and one seed a party."""
        seeds, indptr, ids, values = [], [0], [], []
        for party in parties:
            descent = self.descent(len(party.members))
            drawn = descent.draw(party.ratings, party.rng, 1)
            seeds.append(party.rng.integers(1 << 64, dtype=np.uint64))
            of_users, of_items = gradients(party.own, shared, party.ratings, drawn=drawn)
            if self.joint:
                size = np.float32(descent.rates(number, 1)[0] * party.step_scale * party.weight)
                rows = np.unique(drawn.rows)
                party.own[rows] = project(party.own[rows] - size * of_users[rows], self.bound)
            rated = np.unique(party.ratings.indices[drawn.places])
            indptr.append(indptr[-1] + len(rated))
            ids.append(rated)
            values.append(of_items[rated])
        clean = Rows(
            indptr=np.array(indptr),
            ids=np.concatenate(ids),
            values=np.concatenate(values),
            count=len(shared),
            kind=Kind.GRADIENT,
            rate=-1.0,
        )
        return self._noisy(clean, Streams(np.array(seeds, np.uint64)))

    def merge(self, shared: Floats, sent: Component, parties: list[Party], number: int) -> Floats:
        """A step on the weighted mean of what the parties sent, then the projection."""
        sums = sent.dense(np.arange(len(sent)))
        scales = np.array([[party.weight, party.step_scale] for party in parties]).T
        step = rate_at(number, self.steps, self.learning_rate) * scales[0] * scales[1]
        moved = shared - np.tensordot(step.astype(np.float32), sums, 1)
        return project(np.asarray(moved, np.float32), self.bound)

    def messages(
        self, profiles: Interactions, owners: Ints, broadcast: Broadcast | None, streams: Streams
    ) -> dict[str, Component]:
        """Noisy gradients of one step, (m, p)."""
        items, first = self.received(broadcast, profiles)
        ratings = sparse.csr_array(explicit(profiles, self.bound)[owners])
        users = self.fitted(ratings, first, streams)
        if self.trimmed is not None:
            ratings = trim(ratings, self.trimmed, streams.fold_in(TRIM))
        drawn = self.descent(1).draw_alone(ratings, streams.fold_in(_ROWS), 1)
        columns = ratings.indices[drawn.places]
        clean = Rows(
            indptr=drawn.starts,
            ids=columns,
            values=item_gradients(users[drawn.rows], items[columns], ratings.data[drawn.places]),
            count=len(items),
            kind=Kind.GRADIENT,
            rate=-1.0,
        )
        return {self.component: self._noisy(clean, streams)}

    def _noisy(self, clean: Rows, streams: Streams) -> Component:
        return Randomized(clean, Masked(self.sigma), streams) if self.sigma else clean
