"""Implicit matrix factorization without privacy: trained centrally by alternating least squares."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated

import numpy as np
from numpy.random import Generator
from scipy import sparse

from fedrec_auditor.targets.components import Floats, Ints
from fedrec_auditor.targets.compute import Compute, one_thread
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.papers.fmf_ldp.systems.parts.closed_form import item_gradients
from fedrec_auditor.targets.papers.fmf_ldp.systems.parts.implicit_mf import CUTOFFS
from fedrec_auditor.targets.settings import Factors, Positive, Whole
from fedrec_auditor.targets.systems.base import Evaluation, Model
from fedrec_auditor.targets.systems.system import Central, Trained, Training


@dataclass(frozen=True, kw_only=True)
class MfNp(Central):
    """MF-NP (section 4.4.4): the loss of equation 1, minimised where all interactions lie together.

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
