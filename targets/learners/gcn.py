"""FedRec's client (Zhang et al., section 3.1): one graph convolution over the user's items, MLP."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

from fedrec_auditor.targets.learners.parts.embeddings import Embeddings
from fedrec_auditor.targets.learners.parts.work import Neighbours


@dataclass(frozen=True, kw_only=True)
class Gcn(Embeddings):
    """u = ReLU(W2 (E_U x_u + W1 mean z_v) + b) and a two-layer MLP on u (+) z_v (equations 4 to 7).

    The mean is over all of the user's items (equation 5), the scored one included, and the gradient
    flows through it into their rows. z_v is a row of the item table: features x_v are random in the
    paper, so E_V x_v is a free vector.
    """

    neighbours = Neighbours.CONVOLVED
    deep = True
    learning = MappingProxyType(
        {
            "private_user": True,
            "server": "adam",
            "server_rate": 0.02,
            "rounds": 180,
            "epochs": 1,
            "optimizer": "sgd",
            "learning_rate": 0.02,
            "learner": {"dimension": 16, "init_scale": 0.2},
        }
    )
