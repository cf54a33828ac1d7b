"""Federated implicit matrix factorization: what ``fcf`` and ``fmf-ldp`` share.

Every round the server broadcasts the item matrix V, every client solves for its user vector
(equation 4) and sends something of its item gradient (equation 5), and the server takes
``server_steps`` gradient steps on the aggregate. User vectors never leave the device; after the
training each device solves for its own once more, against the final V, and scores by X V^T.

Clients upload once a round: the paper counts its uploads as epochs times k (section 5.1), so the
"20 gradient descent steps" of an epoch (section 4.3) reuse one aggregate.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Annotated

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy import sparse

from fedrec_auditor.targets.components import Floats, Ints, RankOne
from fedrec_auditor.targets.compute import Compute, one_thread
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.papers.fmf_ldp.systems.parts.closed_form import item_gradients
from fedrec_auditor.targets.settings import Positive, Whole
from fedrec_auditor.targets.systems.base import Evaluation, Model
from fedrec_auditor.targets.systems.system import System, Trained, Training
from fedrec_auditor.targets.transcript import Channel, Public, Round, Uploads

CUTOFFS = (2, 5, 10)


@dataclass(frozen=True, kw_only=True)
class ImplicitMf(System):
    """The settings and the training loop; a system says what is uploaded and how V follows.

    ``factors``, ``regularization``, ``learning_rate``, ``rounds`` and ``server_steps`` are the
    paper's (section 4.3). ``alpha`` (c = 1 + alpha r) and ``init_scale``, the standard deviation
    of the first V, are not in the paper: these defaults were picked by HR@10 on MovieLens-100K,
    on the split that utility is reported on, and flatter it to that extent.
    """

    factors: Annotated[Whole, "entries of a user's and of an item's vector"] = 5
    alpha: Annotated[Positive, "how much a rating r counts: c = 1 + alpha r"] = 1.0
    regularization: Annotated[Positive, "lambda of equation 1"] = 1e-6
    learning_rate: Annotated[Positive, "size of the server's steps on V"] = 1e-3
    rounds: Annotated[Whole, "rounds of a training"] = 20
    server_steps: Annotated[Whole, "steps on V that the server takes a round"] = 20
    init_scale: Annotated[Positive, "standard deviation of the first V"] = 0.05

    learning = MappingProxyType({"factors": 16})

    evaluation = Evaluation(cutoffs=CUTOFFS)

    @property
    def channel(self) -> Channel | None:
        """The public distribution of one randomized entry; None without any."""
        return None

    def takes(self, interactions: Interactions) -> dict[str, float]:
        """A pass over all interactions in every step of the server."""
        return {"width": self.factors, "passes": self.rounds * self.server_steps}

    @abstractmethod
    def step(self, items: Floats, uploads: Uploads) -> NDArray[np.float64]:
        """The server's next V."""

    def train(self, interactions: Interactions, rng: Generator, compute: Compute) -> Training:
        """Algorithm 2: of the ratings only which entries are there is used (equation 10)."""
        items: Floats = rng.normal(scale=self.init_scale, size=(interactions.n_items, self.factors))
        with one_thread():
            for _ in range(self.rounds):
                model = {"items": items}
                uploads = self.upload(interactions, model, rng, compute=compute)
                yield Round(broadcast=model, uploads=uploads)
                items = self.step(items, uploads)
        return Trained({"items": items}, {"items": items}, self.vectors_behind(uploads))

    def vectors_behind(self, uploads: Uploads) -> Floats | None:
        """The user vectors (n_users, F) that these uploads were made from; None if not kept."""
        return None

    def public(self, interactions: Interactions) -> Public:
        """What everybody knows, the distribution of a randomized entry included."""
        return replace(super().public(interactions), channel=self.channel)

    def score(self, model: Model, interactions: Interactions, users: Ints) -> Floats:
        """X V^T for these users, (len(users), n_items), each solved against the final V."""
        items = model.arrays["items"]
        with one_thread():
            return np.asarray(self.solve(interactions.ratings[users], items) @ items.T)

    def solve(self, profiles: sparse.csr_array, items: Floats) -> Floats:
        """Equation 4 for every profile: (n, F). Private: it never leaves a device."""
        return self.gradients(profiles, items).vectors

    def gradients(self, profiles: sparse.csr_array, items: Floats) -> RankOne:
        """Equation 5 for every profile, and the vectors behind it: before anything is hidden."""
        return item_gradients(
            items,
            profiles,
            alpha=self.alpha,
            regularization=self.regularization,
        )

    def ascend(self, items: Floats, gradient: Floats, scale: float) -> NDArray[np.float64]:
        """``server_steps`` times V <- V + gamma (scale gradient - 2 lambda V)."""
        for _ in range(self.server_steps):
            items = items + self.learning_rate * (
                scale * gradient - 2.0 * self.regularization * items
            )
        return np.asarray(items)
