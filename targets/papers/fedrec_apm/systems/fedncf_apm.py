"""FedNCF+APM: federated neural collaborative filtering, a Laplace budget for each component."""

from dataclasses import dataclass

from fedrec_auditor.targets.papers.fedrec_apm.systems.fedncf import FedNcf
from fedrec_auditor.targets.protections.adaptive_laplace import AdaptiveLaplace
from fedrec_auditor.targets.systems.federated import Protection, hits


@dataclass(frozen=True, kw_only=True)
class FedNcfApm(FedNcf):
    """The budgets of section 5.7 on the components that this client has."""

    protection: Protection = AdaptiveLaplace()

    unprotected = "fedncf"
    place = "section 5.10, Table VI"
    reported = hits(0.073, 0.074, "Table VI")
