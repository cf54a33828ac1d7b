"""Local matrix factorization whose user embeddings are fitted to the first V, and stay so."""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated

import numpy as np
from scipy import sparse

from fedrec_auditor.accountants.events import dp
from fedrec_auditor.targets.components import Floats, Kind, Randomized, Rows
from fedrec_auditor.targets.papers.federated_mf.systems.parts.local_mf import LocalMf
from fedrec_auditor.targets.papers.federated_mf.systems.parts.noise_rounds import Masked
from fedrec_auditor.targets.papers.federated_mf.systems.parts.sgd_mf import item_gradients, project
from fedrec_auditor.targets.papers.federated_mf.systems.parts.user_fit import fit_users
from fedrec_auditor.targets.settings import NotNegative, ProperShare
from fedrec_auditor.targets.streams import Streams
from fedrec_auditor.targets.systems.base import Population
from fedrec_auditor.targets.transcript import Broadcast

_RATING = 2  # purpose of a client's stream: which rating it sends


@dataclass(frozen=True, kw_only=True)
class PretrainedMf(LocalMf):
    """Stage 1 of Figure 3d (step c1), and the noisy gradient of one rating that a device sends.

    ``noise_multiplier`` z and ``delta`` are not printed. The paper forgets the projection of V,
    without which no gradient is bounded: the server projects, and so does each device what it
    receives. A user without ratings sends noise.
    """

    noise_multiplier: Annotated[NotNegative, "z, the noise over the sensitivity"]
    delta: Annotated[ProperShare, "of the claim"] = 1e-5

    # The paper's symbols on the command line; sigma there is in units of the sensitivity.
    aliases = MappingProxyType({"sigma": "noise_multiplier", "T": "rounds"})

    learning = MappingProxyType({"spread": 0.3, "rounds": 20, "learning_rate": 10.0})
    steerable = True  # user embeddings follow from the first V, which every broadcast has in it

    unprotected = "fmf-lfl"

    @property
    def sensitivity(self) -> float:
        """2 R^(3/2), of one rating's gradient."""
        return 2.0 * self.bound * math.sqrt(self.bound)

    @property
    def sigma(self) -> float:
        """z times the sensitivity: the noise on a message, or on their sum."""
        return self.noise_multiplier * self.sensitivity

    @property
    def claimed(self) -> float:
        """Epsilon of T Gaussians of noise multiplier z at ``delta``."""
        return self.claimed_at(None, self.delta)

    def claimed_at(self, population: Population | None, delta: float) -> float:
        """The same at any delta, exactly.

        Theorem 5 has an order with a constant that is none; this is the least epsilon it can mean.
        """
        if self.noise_multiplier == 0:
            return math.inf
        deviation = self.noise_multiplier / math.sqrt(self.rounds)
        return float(dp.get_epsilon_gaussian(deviation, delta)) + 1e-9

    def begin(self, ratings: sparse.csr_array, first: Floats) -> Floats:
        """Fitted to the first V (step c1)."""
        first = project(first, self.bound)
        return fit_users(ratings, first, bound=self.bound, steps=self.fitting)

    def masked(
        self,
        ratings: sparse.csr_array,
        users: Floats,
        model: Broadcast,
        streams: Streams,
        scale: float,
    ) -> Randomized:
        """The gradient of one rating a device, drawn uniformly, plus N(0, ``scale``^2) on all rows.

        Messages are (m, p).
        """
        items = project(model["items"], self.bound)
        counts = np.diff(ratings.indptr)
        rated = np.flatnonzero(counts)
        draw = streams.take(rated).fold_in(_RATING).uniform(1)[:, 0]
        place = ratings.indptr[rated] + (draw * counts[rated]).astype(np.int64)
        j = ratings.indices[place]
        gradient = Rows(
            indptr=np.concatenate([[0], np.cumsum(counts > 0)]),
            ids=j,
            values=item_gradients(users[rated], items[j], ratings.data[place]),
            count=len(items),
            kind=Kind.GRADIENT,
            rate=-1.0,
        )
        return Randomized(gradient, Masked(scale), streams)
