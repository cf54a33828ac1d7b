"""FedNCF: federated neural collaborative filtering under FedRec's protocol, unprotected."""

from __future__ import annotations

from dataclasses import dataclass, field

from fedrec_auditor.targets.learners.base import Learner
from fedrec_auditor.targets.learners.ncf import Ncf
from fedrec_auditor.targets.systems.fedrec.parts.federated import Federated, hits


@dataclass(frozen=True, kw_only=True)
class FedNcf(Federated):
    """Algorithm 1 with the client of neural collaborative filtering."""

    learner: Learner = field(default_factory=Ncf)

    name = "fedncf"
    place = "section 5.10, Table VI"
    reported = hits(0.075, 0.076, "Table VI")
