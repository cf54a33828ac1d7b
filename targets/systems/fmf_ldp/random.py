"""Random ranking: what any recommender must beat."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.statements.claim import Claim
from fedrec_auditor.accountants.statements.scope import Horizon, Scope, Unit, Vantage, any_pair
from fedrec_auditor.targets.components import Floats
from fedrec_auditor.targets.compute import Compute
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.mechanisms.base import Mechanism
from fedrec_auditor.targets.streams import Streams
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
from fedrec_auditor.targets.systems.fmf_ldp.parts.implicit_mf import CUTOFFS, PAPER, printed
from fedrec_auditor.targets.transcript import Broadcast, Public, Transcript, Uploads

if TYPE_CHECKING:
    from dp_accounting import DpEvent


@dataclass(frozen=True, kw_only=True)
class Random:
    """Random (section 4.4.4): every user ranks all items in an order of its own, once and for all.

    Nothing is sent and nothing depends on any interaction, so epsilon is 0. HR@K among 99 sampled
    negatives is K/100.
    """

    name = "random"
    paper = PAPER
    evaluation = Evaluation(cutoffs=CUTOFFS)
    reported = printed((0.0200, 0.0500, 0.1000), "Random")

    def questions(self, population: Population) -> tuple[Question, ...]:
        """No epsilon is promised, although 0 could be."""
        claim = Claim(
            epsilon=math.inf,
            scope=any_pair(Unit.USER, Vantage.SERVER, Horizon.TRAINING),
            statement="No epsilon is promised; nothing is collected at all.",
            source=f"{PAPER}, section 4.4.4 (benchmarks)",
        )
        return (Question(claim=claim, scope=claim.scope),)

    def mechanism(self, scope: Scope, population: Population) -> Mechanism | None:
        """None: nothing crosses any boundary."""
        return None

    def event(self, scope: Scope, population: Population) -> DpEvent:
        """No event."""
        from dp_accounting import NoOpDpEvent

        return NoOpDpEvent()

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
        """Draw a stream a user; the transcript has neither rounds nor a release."""
        streams = Streams.spawn(rng, interactions.n_users)
        transcript = Transcript(
            public=Public(
                algorithm=self.name,
                n_users=interactions.n_users,
                n_items=interactions.n_items,
                route=Vantage.RELEASE,
            ),
            rounds=(),
        )
        if progress is not None:
            progress(1, 1)
        return Run(transcript=transcript, model=Model(arrays={"streams": streams}))

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
        """Uniform scores, the same for a user whenever asked."""
        return np.asarray(model.arrays["streams"].take(users).uniform(interactions.n_items))
