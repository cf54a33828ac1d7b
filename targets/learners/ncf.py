"""FedNCF's client (Zhang et al., section 5.10): user and item embeddings into an MLP."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

from fedrec_auditor.targets.learners.parts.embeddings import Embeddings
from fedrec_auditor.targets.learners.parts.work import Neighbours


@dataclass(frozen=True, kw_only=True)
class Ncf(Embeddings):
    """z_u = E_U x_u and a two-layer MLP on z_u (+) z_v.

    The paper names NCF (He et al., WWW 2017) and no more; its MLP branch is what the FedRec
    protocol of user component, item component and MLP holds.
    """

    neighbours = Neighbours.IGNORED
    deep = True
    learning = MappingProxyType(
        {
            "private_user": True,
            "server": "adam",
            "server_rate": 0.1,
            "rounds": 60,
            "epochs": 2,
            "optimizer": "sgd",
            "learning_rate": 0.03,
            "learner": {"dimension": 16, "init_scale": 0.3},
        }
    )
