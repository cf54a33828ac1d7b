"""FedLightGCN+LDP: federated LightGCN, one Laplace budget for all parameters."""

from dataclasses import dataclass

from fedrec_auditor.targets.papers.fedrec_apm.systems.fedlightgcn import FedLightGcn
from fedrec_auditor.targets.protections.laplace import LaplaceProtection
from fedrec_auditor.targets.systems.federated import Protection, hits


@dataclass(frozen=True, kw_only=True)
class FedLightGcnLdp(FedLightGcn):
    """The same epsilon on every parameter; it is not printed, see ``LaplaceProtection``."""

    protection: Protection = LaplaceProtection()

    unprotected = "fedlightgcn"
    place = "section 5.10, Table VI; epsilon is the audit's, none is printed"
    reported = hits(0.073, 0.077, "Table VI")
