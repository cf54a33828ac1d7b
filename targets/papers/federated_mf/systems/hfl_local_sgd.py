"""Horizontal parties that train without each other and keep what they have."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.compute import Compute, one_thread
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.papers.federated_mf.systems.parts.horizontal_mf import HorizontalMf
from fedrec_auditor.targets.papers.federated_mf.systems.parts.sgd_mf import start
from fedrec_auditor.targets.systems.system import Silent, Trained, Training


@dataclass(frozen=True, kw_only=True)
class HflLocalSgd(Silent, HorizontalMf):
    """Local SGD, the dotted lines of Figure 9 (section 5.3): no message, no clipping, no noise.

    Each party takes T T' steps on both embeddings of its own loss (Figure 3a for s = 1), from a
    random start, and predicts with them. It promises nothing and gives nothing away: what HFL-SGDMF
    must beat for a party to take part.
    """

    learning_rate: float = 0.1

    joint = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tuning:
            raise InputError(
                f"Expected tuning=0, got tuning={self.tuning!r}. Parties train alone from the "
                "start; set rounds or local_steps."
            )

    def train(
        self, interactions: Interactions, rng: np.random.Generator, compute: Compute
    ) -> Training:
        """All steps of all parties, between which nothing crosses."""
        first = start(rng.random((interactions.n_items, self.factors)), self.bound)
        parties, items = self.parted(interactions, first, rng), []
        with one_thread():
            for party in parties:
                party.own, own = self.descent(len(party.members)).train(
                    party.own,
                    first,
                    party.ratings,
                    party.rng,
                    user_scale=party.step_scale,
                    item_scale=party.step_scale,
                    count=self.steps,
                )
                items.append(own)
        yield None
        return Trained(None, self.kept(parties, np.stack(items)))

    @property
    def length(self) -> int:
        """One step, whatever the number of gradients."""
        return 1
