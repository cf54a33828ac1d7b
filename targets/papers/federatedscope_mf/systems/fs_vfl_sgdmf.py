"""FederatedScope's VFL-SGDMF as released: user embeddings are averaged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fedrec_auditor.targets.papers.federated_mf.systems.parts.exchange import UsersAveraged
from fedrec_auditor.targets.papers.federated_mf.systems.parts.holding import Items
from fedrec_auditor.targets.papers.federatedscope_mf.systems.parts.scope_sgdmf import (
    AtOneRate,
    ScopeSgdmf,
)


class _UsersAveraged(AtOneRate, UsersAveraged):
    """Own embeddings move as fast."""


@dataclass(frozen=True, kw_only=True)
class FsVflSgdmf(ScopeSgdmf):
    """Parties of items send the user table; item embeddings stay.

    Defaults are those of its baseline on MovieLens 1M. Source: federatedscope/mf at 480b67d,
    trainer_sgdmf.py and the baseline's vfl-sgdmf configuration.

    >>> round(FsVflSgdmf().deviation, 5)
    0.06279
    """

    epsilon: float = 4.0
    delta: float = 0.75
    rate: float = 8 / 6040
    learning_rate: float = 0.5
    rounds: int = 20
    local_steps: int = 50
    split: Literal["random", "category"] = "random"

    holding = Items()
    exchange = _UsersAveraged()
