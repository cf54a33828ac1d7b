"""Horizontal federated matrix factorization that shares a noisy gradient in every step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.statements.claim import Claim
from fedrec_auditor.targets.components import Component, Floats, Kind, Randomized, Rows
from fedrec_auditor.targets.streams import Streams
from fedrec_auditor.targets.systems.base import Population, Question
from fedrec_auditor.targets.systems.federated_mf.parts.horizontal_mf import Party
from fedrec_auditor.targets.systems.federated_mf.parts.noise_rounds import Masked
from fedrec_auditor.targets.systems.federated_mf.parts.noisy_horizontal import NoisyHorizontal
from fedrec_auditor.targets.systems.federated_mf.parts.party_mf import scope_of
from fedrec_auditor.targets.systems.federated_mf.parts.sgd_mf import (
    PAPER,
    RatingBatch,
    accounted,
    project,
    rate_at,
)

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

    def questions(self, population: Population) -> tuple[Question, ...]:
        """The epsilon the baseline is compared at."""
        what = "One rating" if self.unit == "rating" else "A user"
        epsilon = accounted(self.noise_multiplier, self.rate, self.steps, self.delta)
        claim = Claim(
            epsilon=epsilon,
            delta=self.delta,
            scope=scope_of(self.unit),
            statement=(
                f"{what}, present or not, is hidden in all gradients that its party sends with "
                f"epsilon {epsilon:.4g}, as HFL-SGDMF is over as many steps at z = "
                f"{self.noise_multiplier:g} (the paper prints no z)."
            ),
            source=f"{PAPER}, section 5.3 (HFL-synSGD), by the accounting of section 5.2",
        )
        if not self.as_published:
            note = self.mended
        elif self.unit == "rating":
            note = (
                "A user embedding follows all of the user's ratings without noise, and with it the "
                "gradients of all of the user's items; and those show whether the row was drawn."
            )
        else:
            note = (
                "A fixed number of rows is drawn, for which the moments accountant of rows drawn "
                "by themselves proves nothing."
            )
        return (Question(claim=claim, scope=claim.scope, delta=self.delta, note=note),)

    def sent(self, parties: list[Party], items: Floats, number: int) -> Component:
        """Noisy sums of gradients, stored as the rows drawn and one seed a party."""
        seeds, indptr, ids, values = [], [0], [], []
        for party in parties:
            drawn = self.local(party.weight).draw(party.ratings, party.rng, 1)
            seeds.append(party.rng.integers(1 << 64, dtype=np.uint64))
            rated, slope, moved = self._one(party, items, drawn.places, drawn.rows)
            if self.joint:
                rate = rate_at(number, self.steps, self.learning_rate)
                size = np.float32(rate * party.step_scale * party.weight)
                rows = np.unique(drawn.rows)
                party.users = party.users.copy()
                party.users[rows] = project(party.users[rows] - size * moved[rows], self.bound)
            indptr.append(indptr[-1] + len(rated))
            ids.append(rated)
            values.append(slope)
        clean = Rows(
            indptr=np.array(indptr),
            ids=np.concatenate(ids),
            values=np.concatenate(values).astype(np.float32),
            count=len(items),
            kind=Kind.GRADIENT,
            rate=-1.0,
        )
        return self._noisy(clean, Streams(np.array(seeds, np.uint64)))

    def merge(self, items: Floats, sent: Component, parties: list[Party], number: int) -> Floats:
        """A step on the weighted mean of what the parties sent, then the projection."""
        sums = sent.dense(np.arange(len(sent)))
        scales = np.array([[party.weight, party.step_scale] for party in parties]).T
        step = rate_at(number, self.steps, self.learning_rate) * scales[0] * scales[1]
        moved = items - np.tensordot(step.astype(np.float32), sums, 1)
        return project(np.asarray(moved, np.float32), self.bound)

    def alone(
        self, full: sparse.csr_array, items: Floats, first: Floats, streams: Streams
    ) -> Component:
        """First messages of parties of one user each: (n, m, p)."""
        ratings, users = self._prepared(full, first, streams)
        kept = self.local(1.0).single_draws(ratings, streams.fold_in(_ROWS), 1).places
        batch = RatingBatch.thinned(ratings, kept)
        error = batch.errors(users, items)
        rows = np.repeat(np.arange(len(users)), np.diff(batch.ratings.indptr))
        clean = Rows(
            indptr=batch.ratings.indptr,
            ids=batch.ratings.indices,
            values=(2.0 * error[:, None] * users[rows]).astype(np.float32),
            count=len(items),
            kind=Kind.GRADIENT,
            rate=-1.0,
        )
        return self._noisy(clean, streams)

    def _one(
        self, party: Party, items: Floats, places: NDArray[Any], rows: NDArray[Any]
    ) -> tuple[NDArray[Any], Floats, Floats]:
        """Items drawn, ascending, their gradients, and those of all of the party's users."""
        columns = party.ratings.indices[places]
        u, v = party.users[rows], items[columns]
        error = 2.0 * (np.einsum("ij,ij->i", u, v) - party.ratings.data[places])
        rated, where = np.unique(columns, return_inverse=True)
        made: Any = sparse.csr_array
        shape = (len(rated), len(party.users))
        table = made((error, (where, rows)), shape=shape)
        return rated, table @ party.users, table.T @ items[rated]

    def _noisy(self, clean: Rows, streams: Streams) -> Component:
        return Randomized(clean, Masked(self.sigma), streams) if self.sigma else clean
