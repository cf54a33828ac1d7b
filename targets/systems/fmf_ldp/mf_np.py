"""Implicit matrix factorization without privacy: trained centrally by alternating least squares."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedrec_auditor.accountants.statements.claim import Claim
from fedrec_auditor.accountants.statements.scope import Horizon, Scope, Unit, Vantage, any_pair
from fedrec_auditor.targets.components import Floats
from fedrec_auditor.targets.compute import Compute, one_thread
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.mechanisms.base import Mechanism
from fedrec_auditor.targets.mechanisms.identity import Identity
from fedrec_auditor.targets.settings import check_settings, numbers, usual
from fedrec_auditor.targets.systems.base import (
    DEFAULT,
    Challenge,
    Evaluation,
    Model,
    Population,
    Progress,
    Question,
    Run,
)
from fedrec_auditor.targets.systems.fmf_ldp.parts.closed_form import user_vectors
from fedrec_auditor.targets.systems.fmf_ldp.parts.implicit_mf import CUTOFFS, PAPER, printed
from fedrec_auditor.targets.transcript import Broadcast, Public, Transcript, Uploads

if TYPE_CHECKING:
    from dp_accounting import DpEvent


@dataclass(frozen=True, kw_only=True)
class MfNp:
    """MF-NP (section 4.4.4): the loss of equation 1, minimised where all interactions lie together.

    ``epochs`` times all user vectors and then all item vectors are set to their best (equation 4,
    and the same with the roles exchanged: Hu, Koren and Volinsky 2008, the paper's own reference
    for this loss; how its benchmark was trained is not said). Nothing is uploaded, for nothing is
    left on a device; released are the item vectors, which score as those of FCF do. ``alpha`` and
    ``init_scale`` are FCF's here.
    """

    factors: int = 5
    alpha: float = 1.0
    regularization: float = 1e-6
    epochs: int = 20
    init_scale: float = 0.05

    name = "mf-np"
    paper = PAPER
    evaluation = Evaluation(cutoffs=CUTOFFS)
    reported = printed((0.4310, 0.6700, 0.8179), "MF-NP, centralised and without privacy")

    def __post_init__(self) -> None:
        check_settings(self, **usual(self))

    def questions(self, population: Population) -> tuple[Question, ...]:
        """No epsilon is promised: it is the bound of utility."""
        claim = Claim(
            epsilon=math.inf,
            scope=any_pair(Unit.USER, Vantage.RELEASE, Horizon.TRAINING),
            statement="No epsilon is promised: all interactions are collected, without noise.",
            source=f"{PAPER}, section 4.4.4 (benchmarks)",
        )
        return (Question(claim=claim, scope=claim.scope),)

    def mechanism(self, scope: Scope, population: Population) -> Mechanism | None:
        """None: the released vectors have no law that could be written down for every pair."""
        return None

    def event(self, scope: Scope, population: Population) -> DpEvent:
        """Non-private from every vantage."""
        return Identity().event()

    def challenges(self) -> tuple[Challenge, ...]:
        """None: no client sends anything."""
        return ()

    def run(
        self,
        interactions: Interactions,
        rng: np.random.Generator,
        progress: Progress | None = None,
        compute: Compute = DEFAULT,
    ) -> Run:
        """Train; the transcript has no round, and the item vectors for its release."""
        items: Floats = rng.normal(scale=self.init_scale, size=(interactions.n_items, self.factors))
        rows = interactions.ratings
        columns = sparse.csr_array(rows.T)
        with one_thread():
            for number in range(self.epochs):
                items = self._solve(self._solve(items, rows), columns)
                if progress is not None:
                    progress(number + 1, self.epochs)
        transcript = Transcript(
            public=Public(
                algorithm=self.name,
                n_users=interactions.n_users,
                n_items=interactions.n_items,
                settings=numbers(self),
                route=Vantage.RELEASE,
            ),
            rounds=(),
            release={"items": items},
        )
        return Run(transcript=transcript, model=Model(arrays={"items": items}))

    def upload(
        self,
        profiles: Interactions,
        broadcast: Broadcast | None,
        rng: np.random.Generator,
        size: int = 1,
        compute: Compute = DEFAULT,
    ) -> Uploads:
        """Messages without any component: nothing is sent."""
        return Uploads(np.repeat(np.arange(profiles.n_users), size), {})

    def score(
        self, model: Model, interactions: Interactions, users: NDArray[np.integer[Any]]
    ) -> Floats:
        """X V^T for these users, each solved against V."""
        items = model.arrays["items"]
        with one_thread():
            return np.asarray(self._solve(items, interactions.ratings[users]) @ items.T)

    def _solve(self, vectors: Floats, touched: sparse.csr_array) -> Floats:
        return user_vectors(vectors, touched, alpha=self.alpha, regularization=self.regularization)
