"""FedMF's client, and F-DPMF's: matrix factorization whose user vector comes from features."""

from __future__ import annotations

from dataclasses import dataclass

from fedrec_auditor.targets.learners.parts.embeddings import Embeddings
from fedrec_auditor.targets.learners.parts.work import Neighbours


@dataclass(frozen=True, kw_only=True)
class Mf(Embeddings):
    """z_u = E_U x_u, logit z_u . z_v, and no more.

    As a FedRec client (Zhang et al., Figure 2) it shares E_U and the item table, so that a model
    average has a meaning on the user's side too.
    """

    neighbours = Neighbours.IGNORED
    deep = False
