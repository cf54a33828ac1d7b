"""FedLightGCN+APM: federated LightGCN, a Laplace budget for each component."""

from dataclasses import dataclass

from fedrec_auditor.targets.papers.fedrec_apm.systems.fedlightgcn import FedLightGcn
from fedrec_auditor.targets.protections.adaptive_laplace import AdaptiveLaplace
from fedrec_auditor.targets.systems.federated import Protection, hits


@dataclass(frozen=True, kw_only=True)
class FedLightGcnApm(FedLightGcn):
    """The budgets of section 5.7 on the components that this client has."""

    protection: Protection = AdaptiveLaplace()

    unprotected = "fedlightgcn"
    place = "section 5.10, Table VI"
    reported = hits(0.076, 0.080, "Table VI")
