"""Baselines of FMF-LDP: without privacy, trained centrally, and random."""

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
from fedrec_auditor.targets.settings import Factors, Positive, Whole
from fedrec_auditor.targets.streams import Streams
from fedrec_auditor.targets.systems.base import Evaluation, Model
from fedrec_auditor.targets.systems.system import (
    Calls,
    Central,
    Messages,
    Silent,
    Trained,
    Training,
    Unperturbed,
    received,
)
from fedrec_auditor.targets.transcript import Uploads


@dataclass(frozen=True, kw_only=True)
class Fcf(Unperturbed, ImplicitMf):
    """Federated collaborative filtering for implicit feedback, without protection.

    FCF (Ammad-ud-din et al. 2019, as told in Minto et al. 2021, section 2.2): no noise at all.

    Each client sends its whole item gradient, M x F (equation 5); the server descends on its sum
    over users (equations 6 and 7, dJ/dv_i = -2 sum f(u, i) + 2 lambda v_i).

    >>> from fedrec_auditor.targets.datasets.synthetic import Synthetic
    >>> data = Synthetic(n_users=20, n_items=12, profile=4).load()
    >>> run = Fcf(rounds=2).run(data, np.random.default_rng(0))
    >>> [one.uploads.components["gradient"].shape for one in run.transcript.rounds]
    [(12, 5), (12, 5)]
    """

    def sends(self, scope: Scope) -> bool:
        """Gradients depend on which items are rated, not on a rating's value or an attribute."""
        return scope.unit is not Unit.ATTRIBUTE and not scope.is_value

    def messages(self, calls: Calls) -> Messages:
        """Equation 5 for every item, component "gradient"; ``rng`` is not drawn from."""
        profiles, users = calls.profiles, calls.owners
        items = received(calls.broadcast, "items", (profiles.n_items, self.factors))
        gradient = self.gradients(profiles.ratings, items)
        if calls.size != 1:
            gradient = RankOne(gradient.vectors[users], gradient.items, gradient.corrections[users])
        return {"gradient": gradient}

    def vectors_behind(self, uploads: Uploads) -> Floats | None:
        """The vectors of the stored gradients."""
        gradient = uploads.components["gradient"]
        return gradient.vectors.astype(np.float64) if isinstance(gradient, RankOne) else None

    def step(self, items: Floats, uploads: Uploads) -> NDArray[np.float64]:
        """Equations 6 and 7 on the sum over users."""
        return self.ascend(items, uploads.components["gradient"].total(), 2.0)


@dataclass(frozen=True, kw_only=True)
class MfNp(Central):
    """Implicit matrix factorization without privacy: trained centrally, by least squares in turn.

    MF-NP (section 4.4.4): the loss of equation 1, minimised where all interactions lie together.

    ``epochs`` times all user vectors and then all item vectors are set to their best (equation 4,
    and the same with the roles exchanged: Hu, Koren and Volinsky 2008, the paper's own reference
    for this loss; how its benchmark was trained is not said). Nothing is uploaded, for nothing is
    left on a device; released are the item vectors, which score as those of FCF do. ``alpha`` and
    ``init_scale`` are FCF's here.
    """

    factors: Factors = 5
    alpha: Annotated[Positive, "how much a rating r counts: c = 1 + alpha r"] = 1.0
    regularization: Annotated[Positive, "lambda of equation 1"] = 1e-6
    epochs: Annotated[Whole, "times that both tables are solved for in turn"] = 20
    init_scale: Annotated[Positive, "standard deviation of the first V"] = 0.05

    learning = MappingProxyType({"factors": 16})

    evaluation = Evaluation(cutoffs=CUTOFFS)

    @property
    def length(self) -> int:
        """A step an epoch."""
        return self.epochs

    def takes(self, interactions: Interactions) -> dict[str, float]:
        """A pass over all interactions an epoch."""
        return {"width": self.factors, "passes": self.epochs}

    def train(self, interactions: Interactions, rng: Generator, compute: Compute) -> Training:
        """Alternating least squares; the item vectors are released."""
        items: Floats = rng.normal(scale=self.init_scale, size=(interactions.n_items, self.factors))
        rows = interactions.ratings
        columns = sparse.csr_array(rows.T)
        with one_thread():
            for _ in range(self.epochs):
                items = self._solve(self._solve(items, rows), columns)
                yield None
        return Trained({"items": items}, {"items": items})

    def score(self, model: Model, interactions: Interactions, users: Ints) -> Floats:
        """X V^T for these users, each solved against V."""
        items = model.arrays["items"]
        with one_thread():
            return np.asarray(self._solve(items, interactions.ratings[users]) @ items.T)

    def _solve(self, vectors: Floats, touched: sparse.csr_array) -> Floats:
        return item_gradients(
            vectors, touched, alpha=self.alpha, regularization=self.regularization
        ).vectors


@dataclass(frozen=True, kw_only=True)
class Random(Silent):
    """Random ranking: what any recommender must beat.

    Random (section 4.4.4): every user ranks all items in an order of its own, once and for all.

    Nothing is sent and nothing depends on any interaction, so epsilon is 0. HR@K among 99 sampled
    negatives is K/100.
    """

    evaluation = Evaluation(cutoffs=CUTOFFS)

    def train(self, interactions: Interactions, rng: Generator, compute: Compute) -> Training:
        """Draw a stream a user; nothing is released."""
        yield None
        return Trained(None, {"streams": Streams.spawn(rng, interactions.n_users)})

    def score(self, model: Model, interactions: Interactions, users: Ints) -> Floats:
        """Uniform scores, the same for a user whenever asked."""
        return np.asarray(model.arrays["streams"].take(users).uniform(interactions.n_items))
