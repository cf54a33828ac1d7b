"""Federated matrix factorization in the vertical setting, without protection."""

from __future__ import annotations

from dataclasses import dataclass

from fedrec_auditor.accountants.statements.scope import Scope
from fedrec_auditor.targets.mechanisms.base import Mechanism
from fedrec_auditor.targets.papers.federated_mf.systems.parts.vertical_mf import VerticalMf
from fedrec_auditor.targets.systems.base import Population
from fedrec_auditor.targets.systems.system import Unperturbed


@dataclass(frozen=True, kw_only=True)
class FmfVfl(Unperturbed, VerticalMf):
    """FMF, vertical (Figure 3a, equation 4): no clipping, no noise, user embeddings in the clear.

    A user whom a party has not rated keeps its row through the party's steps: the server reads
    from a message which users the party has ratings of (the naive leakage of section 4).
    ``unit`` "user" only trims.
    """

    def mechanism(self, scope: Scope, population: Population) -> Mechanism | None:
        """None: the message is a deterministic function of ratings and public randomness."""
        return None
