"""Federated matrix factorization in the vertical setting, without protection."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Literal

from fedrec_auditor.accountants.statements.scope import Scope
from fedrec_auditor.targets.mechanisms.base import Mechanism
from fedrec_auditor.targets.papers.federated_mf.systems.parts.exchange import UsersAveraged
from fedrec_auditor.targets.papers.federated_mf.systems.parts.holding import Items
from fedrec_auditor.targets.papers.federated_mf.systems.parts.party_mf import PartyMf
from fedrec_auditor.targets.settings import Whole, WholeOrNone
from fedrec_auditor.targets.systems.base import Population
from fedrec_auditor.targets.systems.system import Unperturbed


@dataclass(frozen=True, kw_only=True)
class FmfVfl(Unperturbed, PartyMf):
    """FMF, vertical (Figure 3a, equation 4): no clipping, no noise, user embeddings in the clear.

    A user whom a party has not rated keeps its row through the party's steps: the server reads
    from a message which users the party has ratings of (the naive leakage of section 4).
    ``unit`` "user" only trims, to ``trim`` ratings. Items are dealt as ``split`` says. ``tuning``
    is kappa, the last steps on item embeddings alone (0 in the vanilla paradigm).
    """

    unit: Annotated[Literal["rating", "user"], '"user" only trims'] = "rating"
    trim: Annotated[Whole, "most ratings of a user, where the unit is the user"] = 5
    split: Annotated[Literal["random", "category"], "how items are dealt to parties"] = "random"
    tuning: Annotated[WholeOrNone, "kappa, the last steps, on item embeddings alone"] = 0

    learning = MappingProxyType({"spread": 0.1, "rate": 0.1, "rounds": 200})
    holding = Items()

    @property
    def exchange(self) -> UsersAveraged:
        """U is averaged."""
        return UsersAveraged(self.tuning)

    @property
    def trimmed(self) -> int | None:
        """theta per user; per rating all ratings count."""
        return self.trim if self.unit == "user" else None

    def mechanism(self, scope: Scope, population: Population) -> Mechanism | None:
        """None: the message is a deterministic function of ratings and public randomness."""
        return None
