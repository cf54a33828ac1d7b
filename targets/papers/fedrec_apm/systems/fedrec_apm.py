"""FedRec-APM: FedRec with Laplace noise of a budget of its own for each component."""

from dataclasses import dataclass

from fedrec_auditor.targets.protections.adaptive_laplace import AdaptiveLaplace
from fedrec_auditor.targets.systems.federated import Federated, Protection, hits


@dataclass(frozen=True, kw_only=True)
class FedRecApm(Federated):
    """Algorithm 2 with the budgets of section 5.7 ("ours")."""

    protection: Protection = AdaptiveLaplace()

    unprotected = "fedrec"
    place = "section 4, Algorithm 2, equations 11 and 12, and section 5.7"
    reported = hits(0.103, 0.053, "Table III")
