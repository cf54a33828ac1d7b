"""FedLightGCN's client (Zhang et al., section 5.10): the neighbour mean without weights."""

from __future__ import annotations

from dataclasses import dataclass

from fedrec_auditor.targets.learners.parts.embeddings import Embeddings
from fedrec_auditor.targets.learners.parts.work import Neighbours


@dataclass(frozen=True, kw_only=True)
class LightGcn(Embeddings):
    """u = E_U x_u + mean z_v over the user's items, logit u . z_v.

    LightGCN (He et al., SIGIR 2020) divides by the square roots of both degrees; an item's degree
    is not known on a device, so the sum is divided by the user's. One layer, and the sum of both
    layers instead of their mean, which is a constant factor.
    """

    neighbours = Neighbours.ADDED
    deep = False
