"""FedLightGCN: federated LightGCN under FedRec's protocol, unprotected."""

from dataclasses import dataclass

from fedrec_auditor.targets.learners.light_gcn import LightGcn
from fedrec_auditor.targets.systems.federated import Federated, Learner, hits


@dataclass(frozen=True, kw_only=True)
class FedLightGcn(Federated):
    """Algorithm 1 with the client of LightGCN."""

    learner: Learner = LightGcn()

    place = "section 5.10, Table VI"
    reported = hits(0.080, 0.082, "Table VI")
