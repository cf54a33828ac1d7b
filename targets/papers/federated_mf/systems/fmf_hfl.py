"""Federated matrix factorization between parties that hold some users each, without protection."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated

from fedrec_auditor.targets.papers.federated_mf.systems.parts.exchange import ItemsAveraged
from fedrec_auditor.targets.papers.federated_mf.systems.parts.holding import Users
from fedrec_auditor.targets.papers.federated_mf.systems.parts.party_mf import PartyMf
from fedrec_auditor.targets.settings import Positive, WholeOrNone
from fedrec_auditor.targets.systems.system import Unperturbed


@dataclass(frozen=True, kw_only=True)
class FmfHfl(Unperturbed, PartyMf):
    """FMF in the horizontal setting (Figure 3a, equation 5): V^(k) is sent as it is.

    Both embeddings are descended on in the second stage, user embeddings n_k/n as fast as those of
    items; there is no clipping, no noise and, with ``tuning`` 0, no fine-tuning.
    """

    learning_rate: float = 0.5
    tuning: Annotated[WholeOrNone, "steps of a party on its own in the end"] = 0
    tuning_rate: Positive = 0.5

    learning = MappingProxyType({"spread": 0.1, "rate": 0.1, "rounds": 200})
    holding = Users()

    @property
    def exchange(self) -> ItemsAveraged:
        """V is averaged."""
        return ItemsAveraged(True, self.tuning, self.tuning_rate)
