"""Local federated matrix factorization with noise on every device, enough for it alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from fedrec_auditor.accountants.events import dp
from fedrec_auditor.accountants.statements.scope import Adjacency, Scope, Unit, Vantage
from fedrec_auditor.targets.components import Component, Floats
from fedrec_auditor.targets.mechanisms.base import Mechanism
from fedrec_auditor.targets.mechanisms.embedding_gaussian import EmbeddingGaussian
from fedrec_auditor.targets.mechanisms.repeated import Repeated
from fedrec_auditor.targets.papers.federated_mf.systems.parts.descent import Clipping
from fedrec_auditor.targets.papers.federated_mf.systems.parts.pretrained_mf import PretrainedMf
from fedrec_auditor.targets.papers.federated_mf.systems.parts.sgd_mf import (
    noisy_steps,
    project,
    rate_at,
)
from fedrec_auditor.targets.settings import Knob
from fedrec_auditor.targets.streams import Streams
from fedrec_auditor.targets.systems.base import Population
from fedrec_auditor.targets.transcript import Broadcast, Round, Uploads


@dataclass(frozen=True, kw_only=True)
class LflLdp(PretrainedMf):
    """LFL-SGDMF with "LDP level noise" (section 6.3, Figure 10): z 2 R^(3/2) on every message.

    Told in a sentence, as proof that cooperation cannot help then. Devices fit their embeddings to
    the first V (stage 1); in each of T rounds a device sends the gradient of one of its ratings
    with that noise on the whole table, and the server steps on the mean. No secure aggregation is
    needed and none is used. ``noise_multiplier`` and ``delta`` are assumed: with z = 1.64 the local
    epsilon at T = 10 is about that of GD-DR here, 10.
    """

    noise_multiplier: float = 1.64

    privacy = Knob(noise=("noise_multiplier",), off=0.0)

    def mechanism(self, scope: Scope, population: Population) -> Mechanism | None:
        """Every message of a user of one rating, there or not, at the worst V.

        None for other changes, from other vantages and without noise.
        """
        plain = scope.unit is Unit.USER and scope.adjacency is Adjacency.ADD_REMOVE
        if not plain or scope.vantage is not Vantage.SERVER or not self.sigma:
            return None
        one = EmbeddingGaussian.worst(sigma=self.sigma, bound=self.bound)
        return Repeated(one, self.uses(scope.horizon))

    def event(self, scope: Scope, population: Population) -> dp.DpEvent:
        """T Gaussians: a gradient there or not; for any other change, one for another."""
        apart = Clipping.of_embeddings(self.bound).apart
        z = self.noise_multiplier / (1.0 if scope.is_presence else apart)
        return noisy_steps(z, self.uses(scope.horizon))

    def send(
        self, ratings: sparse.csr_array, users: Floats, model: Broadcast, streams: Streams
    ) -> tuple[dict[str, Component], Floats]:
        """Component "update": the noisy gradient, (m, p)."""
        return {"update": self.masked(ratings, users, model, streams, self.sigma)}, users

    def turn(
        self, number: int, model: Broadcast, send: Any, rng: np.random.Generator
    ) -> tuple[Round, Floats]:
        """All devices send, and the server steps on the mean and projects."""
        messages = send(model)
        update, items = messages["update"], np.asarray(model["items"])
        step = rate_at(number, self.rounds, self.learning_rate) / len(update)
        after = project((items - step * update.total()).astype(np.float32), self.bound)
        return Round(broadcast=model, uploads=Uploads(np.arange(len(update)), messages)), after
