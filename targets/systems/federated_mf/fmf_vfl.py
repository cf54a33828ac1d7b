"""Federated matrix factorization in the vertical setting, without protection."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedrec_auditor.accountants.statements.claim import Claim
from fedrec_auditor.accountants.statements.scope import Adjacency, Horizon, Scope, Unit, Vantage
from fedrec_auditor.targets.mechanisms.base import Mechanism
from fedrec_auditor.targets.systems.base import Population, Question, Reported
from fedrec_auditor.targets.systems.federated_mf.parts.descent import Descent, Unclipped
from fedrec_auditor.targets.systems.federated_mf.parts.sgd_mf import PAPER
from fedrec_auditor.targets.systems.federated_mf.parts.vertical_mf import VerticalMf

if TYPE_CHECKING:
    from dp_accounting import DpEvent


@dataclass(frozen=True, kw_only=True)
class FmfVfl(VerticalMf):
    """FMF, vertical (Figure 3a, equation 4): no clipping, no noise, user embeddings in the clear.

    A user whom a party has not rated keeps its row through the party's steps: the server reads
    from a message which users the party has ratings of (the naive leakage of section 4).
    ``unit`` "user" only trims.
    """

    name = "fmf-vfl"
    reported = (
        Reported(
            metric="MSE",
            protocol="held-out ratings",
            value=0.83012,
            note="section 4.3, central training (s = 1) without privacy on MovieLens-10M; "
            "0.8631 on MovieLens-25M, 4.23981 on LibimSeTi",
        ),
    )

    def descent(self, n_users: int) -> Descent:
        """Plain steps on sampled rows."""
        return Descent(
            clipping=Unclipped(),
            learning_rate=self.learning_rate,
            rate=self.rate,
            steps=self.steps,
        )

    def questions(self, population: Population) -> tuple[Question, ...]:
        """No epsilon is promised: what is offered is that ratings stay with their party."""
        claim = Claim(
            epsilon=math.inf,
            scope=Scope(
                unit=Unit.RATING,
                adjacency=Adjacency.ADD_REMOVE,
                vantage=Vantage.SERVER,
                horizon=Horizon.TRAINING,
            ),
            statement=(
                "No epsilon is promised; ratings stay with their party, and the paper says itself "
                "that what is shared leaks them."
            ),
            source=f"{PAPER}, section 3.2 and the beginning of section 4",
        )
        return (Question(claim=claim, scope=claim.scope),)

    def mechanism(self, scope: Scope, population: Population) -> Mechanism | None:
        """None: the message is a deterministic function of ratings and of coins that hide none."""
        return None

    def event(self, scope: Scope, population: Population) -> DpEvent:
        """Nothing is bounded."""
        from dp_accounting import NonPrivateDpEvent

        return NonPrivateDpEvent()
