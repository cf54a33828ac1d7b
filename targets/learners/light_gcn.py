"""FedLightGCN's client (Zhang et al., section 5.10): the neighbour mean without weights."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from fedrec_auditor.targets.components import Component, Rows
from fedrec_auditor.targets.compute import Compute
from fedrec_auditor.targets.learners.base import Clients, LocalTraining
from fedrec_auditor.targets.learners.parts.embeddings import Embeddings
from fedrec_auditor.targets.learners.parts.work import Neighbours
from fedrec_auditor.targets.settings import ShareOrNone
from fedrec_auditor.targets.transcript import Broadcast

_DROPPED = 1 << 33
"""Purpose of a device's randomness, beyond those of training."""


@dataclass(frozen=True, kw_only=True)
class LightGcn(Embeddings):
    """u = E_U x_u + mean z_v over the user's items, logit u . z_v.

    LightGCN (He et al., SIGIR 2020) divides by the square roots of both degrees; an item's degree
    is not known on a device, so the sum is divided by the user's. One layer, and the sum of both
    layers instead of their mean, which is a constant factor.

    With ``edge_dropout``, which PerFedRec's released code has, an own row moves unless its edge is
    left out and it is none of the positives that are drawn: of n own items n, with replacement, so
    that it stays with a chance of ``edge_dropout`` (1 - 1/n)^n, about a third of it. Here such a
    row is trained beside the others, and sent as it was broadcast.
    """

    edge_dropout: Annotated[ShareOrNone, "chance that an edge of the graph is left out"] = 0.0

    neighbours = Neighbours.ADDED
    deep = False

    def train(
        self, broadcast: Broadcast, clients: Clients, local: LocalTraining, compute: Compute
    ) -> dict[str, Component]:
        """Every device's model; of rows that stay the broadcast is sent."""
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
        staying = (owners * rows.count + ratings.indices)[stays]
        kept = ~np.isin(senders * rows.count + rows.ids, staying)
        indptr = np.append(0, np.cumsum(kept))[rows.indptr]
        item = replace(rows, indptr=indptr, ids=rows.ids[kept], values=rows.values[kept])
        return {**found, "item": item}
