"""LightGCN of which a device leaves some own items alone, as the released code does."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from fedrec_auditor.targets.components import Component, Rows
from fedrec_auditor.targets.compute import Compute
from fedrec_auditor.targets.learners.base import Clients, LocalTraining
from fedrec_auditor.targets.learners.light_gcn import LightGcn
from fedrec_auditor.targets.settings import ShareOrNone
from fedrec_auditor.targets.transcript import Broadcast

_DROPPED = 1 << 33
"""Purpose of a device's randomness, beyond those of training."""


@dataclass(frozen=True, kw_only=True)
class DroppedEdges(LightGcn):
    """An own row moves unless its edge is dropped and it is none of the positives that are drawn.

    Of n own items n are drawn with replacement, so that it stays with a chance of ``edge_dropout``
    (1 - 1/n)^n, about a third of it. Here such a row is trained beside the others and not sent.
    """

    edge_dropout: Annotated[ShareOrNone, "chance that an edge of the graph is left out"] = 0.1

    def train(
        self, broadcast: Broadcast, clients: Clients, local: LocalTraining, compute: Compute
    ) -> dict[str, Component]:
        """As a LightGCN trains; of rows that stay the broadcast is sent."""
        found = super().train(broadcast, clients, local, compute)
        rows, ratings = found["item"], clients.interactions.ratings
        if not self.edge_dropout or not isinstance(rows, Rows):
            return found
        sizes = np.diff(ratings.indptr)
        owners = np.repeat(np.arange(len(sizes)), sizes)
        drawn = clients.streams.fold_in(_DROPPED).uniform(int(sizes.max(initial=0)))
        chance = self.edge_dropout * (1.0 - 1.0 / np.maximum(sizes, 1)) ** sizes
        stays = drawn[owners, np.arange(ratings.nnz) - ratings.indptr[owners]] < chance[owners]
        senders = np.repeat(np.arange(len(rows)), np.diff(rows.indptr))
        keys = (senders * rows.count + rows.ids, owners * rows.count + ratings.indices)
        kept = ~np.isin(keys[0], keys[1][stays])
        indptr = np.append(0, np.cumsum(kept))[rows.indptr]
        item = replace(rows, indptr=indptr, ids=rows.ids[kept], values=rows.values[kept])
        return {**found, "item": item}
