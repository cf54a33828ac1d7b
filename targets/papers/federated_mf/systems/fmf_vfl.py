"""Federated matrix factorization in the vertical setting, without protection."""

from __future__ import annotations

from dataclasses import dataclass

from fedrec_auditor.accountants.statements.scope import Scope
from fedrec_auditor.targets.mechanisms.base import Mechanism
from fedrec_auditor.targets.papers.federated_mf.systems.parts.party_mf import scope_of
from fedrec_auditor.targets.papers.federated_mf.systems.parts.vertical_mf import VerticalMf
from fedrec_auditor.targets.systems.base import Population, Reported
from fedrec_auditor.targets.systems.system import Unperturbed


@dataclass(frozen=True, kw_only=True)
class FmfVfl(Unperturbed, VerticalMf):
    """FMF, vertical (Figure 3a, equation 4): no clipping, no noise, user embeddings in the clear.

    A user whom a party has not rated keeps its row through the party's steps: the server reads
    from a message which users the party has ratings of (the naive leakage of section 4).
    ``unit`` "user" only trims.
    """

    reported = (
        Reported(
            metric="MSE",
            protocol="held-out ratings",
            value=0.83012,
            note="section 4.3, central training (s = 1) without privacy on MovieLens-10M; "
            "0.8631 on MovieLens-25M, 4.23981 on LibimSeTi",
        ),
    )

    place = "section 3.2 and the beginning of section 4"
    offer = (
        "; ratings stay with their party, and the paper says itself that what is shared leaks them."
    )
    offered = scope_of("rating")

    def mechanism(self, scope: Scope, population: Population) -> Mechanism | None:
        """None: the message is a deterministic function of ratings and public randomness."""
        return None
