"""FedMF's client, and F-DPMF's: matrix factorization whose user vector comes from features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fedrec_auditor.targets.learners.parts.embeddings import Embeddings
from fedrec_auditor.targets.learners.parts.work import Neighbours


@dataclass(frozen=True, kw_only=True)
class Mf(Embeddings):
    """z_u = E_U x_u, logit z_u . z_v, and no more.

    As a FedRec client (Zhang et al., Figure 2) it shares E_U and the item table, so that a model
    average has a meaning on the user's side too. ``loss`` "squared" is sum (r - z_u . z_v)^2, which
    is F-DPMF's: DPMF (Hua et al. 2015) perturbs a squared error. "logistic" is equation 8's.
    """

    loss: Literal["logistic", "squared"] = "logistic"

    neighbours = Neighbours.IGNORED
    deep = False

    @property
    def squared(self) -> bool:
        """Whether ``loss`` is the squared error."""
        return self.loss == "squared"
