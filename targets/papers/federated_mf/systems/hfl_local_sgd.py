"""Horizontal parties that train without each other and keep what they have."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated

from fedrec_auditor.targets.papers.federated_mf.systems.parts.exchange import Kept
from fedrec_auditor.targets.papers.federated_mf.systems.parts.holding import Users
from fedrec_auditor.targets.papers.federated_mf.systems.parts.party_mf import PartyMf
from fedrec_auditor.targets.settings import Choice, Positive
from fedrec_auditor.targets.systems.system import Silent


@dataclass(frozen=True, kw_only=True)
class HflLocalSgd(Silent, PartyMf):
    """Local SGD, the dotted lines of Figure 9 (section 5.3): no message, no clipping, no noise.

    Each party takes T T' steps on both embeddings of its own loss (Figure 3a for s = 1), from a
    random start, and predicts with them. It promises nothing and gives nothing away: what HFL-SGDMF
    must beat for a party to take part.
    """

    learning_rate: float = 0.1
    tuning: Annotated[int, Choice((0,), "to be 0: parties train alone from the start")] = 0
    tuning_rate: Positive = 0.5

    learning = MappingProxyType({"spread": 0.1, "rate": 0.1, "rounds": 30, "learning_rate": 0.05})
    holding = Users()
    exchange = Kept()
