"""Baselines of the FMF-LDP paper: unprotected, centrally trained and random recommenders."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy import sparse

from fedrec_auditor.accountants.statements import Scope, Unit
from fedrec_auditor.targets.components import Floats, Ints, RankOne
from fedrec_auditor.targets.compute import Compute, one_thread
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.papers.fmf_ldp.systems.parts.implicit_mf import (
    CUTOFFS,
    ImplicitMf,
    item_gradients,
)
from fedrec_auditor.targets.settings import EmbeddingSize, Positive, Whole
from fedrec_auditor.targets.streams import Streams
from fedrec_auditor.targets.systems.base import Evaluation, Model
from fedrec_auditor.targets.systems.system import (
    CentralSystem,
    Messages,
    NoiselessSystem,
    NoUploads,
    Training,
    TrainingResult,
    UploadRequest,
    get_table,
)
from fedrec_auditor.targets.transcript import Uploads


@dataclass(frozen=True, kw_only=True)
class Fcf(NoiselessSystem, ImplicitMf):
    """Federated collaborative filtering for implicit feedback, without protection.

    FCF (Ammad-ud-din et al. 2019, as in Minto et al. 2021, section 2.2) adds no noise.

    Each client sends its gradient for all items, shape (n_items, F) for F factors (equation 5). The
    server descends on the loss J with the sum of the gradients f(u, i) over users u (equations 6
    and 7): dJ/dv_i = -2 sum f(u, i) + 2 lambda v_i, for the item vector v_i.

    >>> from fedrec_auditor.targets.datasets.synthetic import Synthetic
    >>> data = Synthetic(n_users=20, n_items=12, profile=4).load()
    >>> run = Fcf(rounds=2).run(data, np.random.default_rng(0))
    >>> [one.uploads.components["gradient"].shape for one in run.transcript.rounds]
    [(12, 5), (12, 5)]
    """

    def depends_on(self, scope: Scope) -> bool:
        """Whether messages depend on the data that ``scope`` protects (its unit).

        Messages depend on which items are rated, but not on a rating's value or on attributes.
        """
        return scope.unit is not Unit.ATTRIBUTE and not scope.is_value

    def messages(self, calls: UploadRequest) -> Messages:
        """Returns the gradients of equation 5 for every item, as the array "gradient" (n_items, F)
        of each message.

        The random generator of ``calls`` is not used.
        """
        profiles, users = calls.profiles, calls.profile_ids
        items = get_table(calls.broadcast, "items", (profiles.n_items, self.factors))
        gradient = self.gradients(profiles.ratings, items)
        if calls.size != 1:
            gradient = RankOne(gradient.vectors[users], gradient.items, gradient.corrections[users])
        return {"gradient": gradient}

    def upload_vectors(self, uploads: Uploads) -> Floats | None:
        """Returns the user vectors (n_users, F) from which ``uploads`` were computed; None if they
        are not stored.
        """
        gradient = uploads.components["gradient"]
        return gradient.vectors.astype(np.float64) if isinstance(gradient, RankOne) else None

    def next_model(self, items: Floats, uploads: Uploads) -> NDArray[np.float64]:
        """Returns the next item matrix by equations 6 and 7, from the sum of the gradients over
        users.
        """
        return self.ascend(items, uploads.components["gradient"].total(), 2.0)


@dataclass(frozen=True, kw_only=True)
class MfNp(CentralSystem):
    """Implicit matrix factorization without privacy: central alternating least squares.

    MF-NP (section 4.4.4) minimizes the loss of equation 1 at a server that holds all interactions.

    In each of ``epochs`` passes, all user vectors and then all item vectors are set to their best
    values (equation 4, also with exchanged roles of users and items). The paper does not state how
    its benchmark was trained; this is the training of Hu, Koren and Volinsky 2008, its reference
    for this loss. Devices hold nothing and upload nothing. The item vectors are released, and score
    items as in ``Fcf``. ``alpha`` and ``init_scale`` are those of ``Fcf``.
    """

    factors: EmbeddingSize = 5
    alpha: Annotated[Positive, "alpha of a rating's weight c = 1 + alpha r"] = 1.0
    regularization: Annotated[Positive, "lambda of equation 1"] = 1e-6
    epochs: Annotated[Whole, "alternating solutions of both tables"] = 20
    init_scale: Annotated[Positive, "standard deviation of the first V"] = 0.05

    learning = MappingProxyType({"factors": 16})

    evaluation = Evaluation(cutoffs=CUTOFFS)

    @property
    def n_steps(self) -> int:
        """Number of steps of the training, one per epoch."""
        return self.epochs

    def cost_args(self, interactions: Interactions) -> dict[str, float]:
        """Returns the arguments of ``Cost.estimate`` for a training, by name: one pass over all
        interactions per epoch.
        """
        return {"width": self.factors, "passes": self.epochs}

    def train(self, interactions: Interactions, rng: Generator, compute: Compute) -> Training:
        """Runs alternating least squares, and publishes the item vectors; yields no messages."""
        items: Floats = rng.normal(scale=self.init_scale, size=(interactions.n_items, self.factors))
        rows = interactions.ratings
        columns = sparse.csr_array(rows.T)
        with one_thread():
            for _ in range(self.epochs):
                items = self._solve(self._solve(items, rows), columns)
                yield None
        return TrainingResult({"items": items}, {"items": items})

    def score(self, model: Model, interactions: Interactions, users: Ints) -> Floats:
        """Returns the scores X V^T of all items for ``users``, shape (len(users), n_items).

        The user vectors X are fitted to the users' interactions, with the final item matrix V.
        """
        items = model.arrays["items"]
        with one_thread():
            return np.asarray(self._solve(items, interactions.ratings[users]) @ items.T)

    def _solve(self, vectors: Floats, touched: sparse.csr_array) -> Floats:
        return item_gradients(
            vectors, touched, alpha=self.alpha, regularization=self.regularization
        ).vectors


@dataclass(frozen=True, kw_only=True)
class Random(NoUploads):
    """Random ranking of all items, which any useful recommender must exceed.

    Random (section 4.4.4): every user ranks all items in a random order, which is fixed for this
    user.

    Nothing is sent and nothing depends on any interaction, so that epsilon is 0. HR@K among 99
    sampled negatives is K/100.
    """

    evaluation = Evaluation(cutoffs=CUTOFFS)

    def train(self, interactions: Interactions, rng: Generator, compute: Compute) -> Training:
        """Draws one random stream per user, from which the user's item scores come; nothing is
        published.
        """
        yield None
        return TrainingResult(None, {"streams": Streams.spawn(rng, interactions.n_users)})

    def score(self, model: Model, interactions: Interactions, users: Ints) -> Floats:
        """Returns uniform random scores, shape (len(users), n_items); a user's scores are equal in
        every call.
        """
        return np.asarray(model.arrays["streams"].take(users).uniform(interactions.n_items))
