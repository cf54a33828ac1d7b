"""Horizontal federated matrix factorization that shares a noisy gradient in every step."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated

import numpy as np

from fedrec_auditor.targets.components import Component, Floats, Kind, Randomized, Rows
from fedrec_auditor.targets.papers.federated_mf.systems.parts.descent import gradients
from fedrec_auditor.targets.papers.federated_mf.systems.parts.exchange import (
    ItemsAveraged,
    fitted,
    received,
)
from fedrec_auditor.targets.papers.federated_mf.systems.parts.holding import Users
from fedrec_auditor.targets.papers.federated_mf.systems.parts.noise import NoiseOnItems
from fedrec_auditor.targets.papers.federated_mf.systems.parts.noise_rounds import Masked
from fedrec_auditor.targets.papers.federated_mf.systems.parts.noisy_steps import NoisySteps
from fedrec_auditor.targets.papers.federated_mf.systems.parts.party_mf import Party, PartyMf
from fedrec_auditor.targets.papers.federated_mf.systems.parts.sgd_mf import (
    explicit,
    item_gradients,
    project,
    rate_at,
)
from fedrec_auditor.targets.settings import Choice, Knob, NotNegative, Positive, WholeOrNone
from fedrec_auditor.targets.streams import Streams
from fedrec_auditor.targets.systems.system import Calls, Messages

_ROWS = 201  # purpose of a party's stream


@dataclass(frozen=True, kw_only=True)
class HflSynsgd(NoisySteps):
    """HFL-synSGD: the moments accountant's epsilon for T noisy gradients of sampled rows.

    The paper's adaptation of DP-SGD (section 5.3), told in a sentence. In every one of ``rounds`` =
    1000 steps a party sends the noisy sum of its item gradients, and takes a step on its user
    embeddings without noise; the server divides by the average number of ratings of a user, steps
    on the mean weighted by n_k/n, and projects. Both embeddings start at random; in the end each
    party fine-tunes as in HFL-SGDMF. Gradients are bounded by embedding clipping, as there.
    """

    rounds: int = 1000
    local_steps: Annotated[int, Choice((1,), "to be 1: hfl-sgdmf has several")] = 1
    learning_rate: float = 0.1
    noise_multiplier: NotNegative = 1.7
    tuning: WholeOrNone = 1000
    tuning_rate: Positive = 0.1

    unprotected = "fmf-hfl"
    privacy = Knob(noise=("noise_multiplier",), off=0.0)
    learning = MappingProxyType(
        {"spread": 0.1, "rate": 0.2, "rounds": 1500, "learning_rate": 0.5, "tuning": 0}
    )
    holding = Users()

    @property
    def exchange(self) -> ItemsSummed:
        """Gradients are sent instead of tables."""
        return ItemsSummed(self.noise(1).moves, self.tuning, self.tuning_rate)

    def noise(self, n_users: int, joint: bool = True) -> NoiseOnItems:
        """z Delta on the gradients in V; user embeddings move in every step."""
        return NoiseOnItems.of(self, self.noise_multiplier, moves=True)


class ItemsSummed(ItemsAveraged):
    """In every step a noisy sum of item gradients a party; the server steps on their mean."""

    component = "noisy"

    def sent(self, mf: PartyMf, parties: list[Party], shared: Floats, number: int) -> Component:
        """Noisy sums of gradients, stored as the rows drawn and one seed a party."""
        seeds, indptr, ids, values = [], [0], [], []
        for party in parties:
            descent = mf.descent(len(party.members))
            drawn = descent.draw(party.ratings, party.rng, 1)
            seeds.append(party.rng.integers(1 << 64, dtype=np.uint64))
            of_users, of_items = gradients(party.own, shared, party.ratings, drawn=drawn)
            if self.along:
                size = np.float32(descent.rates(number, 1)[0] * party.step_scale * party.weight)
                rows = np.unique(drawn.rows)
                party.own[rows] = project(party.own[rows] - size * of_users[rows], mf.bound)
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
        return _noisy(mf, clean, Streams(np.array(seeds, np.uint64)))

    def merge(
        self, mf: PartyMf, shared: Floats, sent: Component, parties: list[Party], number: int
    ) -> Floats:
        """A step on the weighted mean of what the parties sent, then the projection."""
        sums = sent.dense(np.arange(len(sent)))
        scales = np.array([[party.weight, party.step_scale] for party in parties]).T
        step = rate_at(number, mf.steps, mf.learning_rate) * scales[0] * scales[1]
        moved = shared - np.tensordot(step.astype(np.float32), sums, 1)
        return project(np.asarray(moved, np.float32), mf.bound)

    def messages(self, mf: PartyMf, calls: Calls) -> Messages:
        """Noisy gradients of one step, (m, p)."""
        items, first = received(mf, calls)
        ratings, streams = explicit(calls.clients, mf.bound), calls.streams
        users = fitted(mf, ratings, first, streams)
        ratings = mf.trim_alone(ratings, streams)
        drawn = mf.descent(1).draw_alone(ratings, streams.fold_in(_ROWS), 1)
        columns = ratings.indices[drawn.places]
        clean = Rows(
            indptr=drawn.starts,
            ids=columns,
            values=item_gradients(users[drawn.rows], items[columns], ratings.data[drawn.places]),
            count=len(items),
            kind=Kind.GRADIENT,
            rate=-1.0,
        )
        return {self.component: _noisy(mf, clean, streams)}


def _noisy(mf: PartyMf, clean: Rows, streams: Streams) -> Component:
    sigma = mf.descent(1).item_sigma
    return Randomized(clean, Masked(sigma), streams) if sigma else clean
