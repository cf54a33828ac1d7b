"""FederatedScope's HFL-SGDMF as released: item embeddings are averaged."""

from __future__ import annotations

from dataclasses import dataclass

from fedrec_auditor.targets.papers.federated_mf.systems.parts.exchange import ItemsAveraged
from fedrec_auditor.targets.papers.federated_mf.systems.parts.holding import Users
from fedrec_auditor.targets.papers.federatedscope_mf.systems.parts.scope_sgdmf import (
    AtOneRate,
    ScopeSgdmf,
)


class _ItemsAveraged(AtOneRate, ItemsAveraged):
    """Own embeddings move as fast."""


@dataclass(frozen=True, kw_only=True)
class FsHflSgdmf(ScopeSgdmf):
    """Parties of users send the item table; user embeddings stay.

    Defaults are those of its baseline on MovieLens 1M. Source: federatedscope/mf at 480b67d,
    trainer_sgdmf.py and the baseline's hfl-sgdmf configuration.

    >>> round(FsHflSgdmf().deviation, 5)
    1.55948
    """

    epsilon: float = 2.0
    delta: float = 0.5
    rate: float = 64 / 6040
    learning_rate: float = 1.0
    rounds: int = 100
    local_steps: int = 10

    holding = Users()
    exchange = _ItemsAveraged()
