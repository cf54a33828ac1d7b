"""FedNCF: federated neural collaborative filtering under FedRec's protocol, unprotected."""

from dataclasses import dataclass

from fedrec_auditor.targets.learners.ncf import Ncf
from fedrec_auditor.targets.systems.federated import Federated, Learner, hits


@dataclass(frozen=True, kw_only=True)
class FedNcf(Federated):
    """Algorithm 1 with the client of neural collaborative filtering."""

    learner: Learner = Ncf()

    place = "section 5.10, Table VI"
    reported = hits(0.075, 0.076, "Table VI")
