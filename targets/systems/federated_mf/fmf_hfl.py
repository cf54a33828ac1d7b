"""Federated matrix factorization between parties that hold some users each, without protection."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedrec_auditor.accountants.statements.claim import Claim
from fedrec_auditor.accountants.statements.scope import Horizon, Scope, Unit, Vantage, any_pair
from fedrec_auditor.targets.mechanisms.base import Mechanism
from fedrec_auditor.targets.mechanisms.identity import Identity
from fedrec_auditor.targets.systems.base import Population, Question, Reported
from fedrec_auditor.targets.systems.federated_mf.parts.horizontal_mf import HorizontalMf
from fedrec_auditor.targets.systems.federated_mf.parts.party_steps import PartySteps
from fedrec_auditor.targets.systems.federated_mf.parts.sgd_mf import PAPER

if TYPE_CHECKING:
    from dp_accounting import DpEvent


@dataclass(frozen=True, kw_only=True)
class FmfHfl(HorizontalMf):
    """FMF in the horizontal setting (Figure 3a, equation 5): V^(k) is sent as it is.

    Both embeddings are descended on in the second stage, user embeddings n_k/n as fast as those of
    items; there is no clipping, no noise and no fine-tuning.
    """

    learning_rate: float = 0.5

    name = "fmf-hfl"
    reported = (
        Reported(
            metric="MSE",
            protocol="held-out ratings",
            value=0.83012,
            note=(
                "Section 4.3, one party with all data, MovieLens-10M; 0.8631 on MovieLens-25M, "
                "4.23981 on LibimSeTi (ratings to 10)"
            ),
        ),
    )
    joint = True

    def local(self, weight: float) -> PartySteps:
        """Plain steps on sampled rows, in both embeddings."""
        return PartySteps(
            learning_rate=self.learning_rate, steps=self.steps, rate=self.rate, weight=weight
        )

    def questions(self, population: Population) -> tuple[Question, ...]:
        """No epsilon is promised: the privacy offered is that ratings are not sent."""
        claim = Claim(
            epsilon=math.inf,
            scope=any_pair(Unit.USER, Vantage.SERVER, Horizon.TRAINING),
            statement=(
                "No epsilon is promised; what is offered is that ratings and user embeddings stay "
                "with the party, and item embeddings are shared."
            ),
            source=f"{PAPER}, section 3.2, Figure 3(a)",
        )
        return (Question(claim=claim, scope=claim.scope),)

    def mechanism(self, scope: Scope, population: Population) -> Mechanism | None:
        """None at all before the server; weaker vantages see means of it.

        None for an attribute, on which nothing depends.
        """
        sent = scope.vantage is Vantage.SERVER and scope.unit is not Unit.ATTRIBUTE
        return Identity() if sent else None

    def event(self, scope: Scope, population: Population) -> DpEvent:
        """Non-private from every vantage: what an item's row moved by is not hidden."""
        return Identity().event()
