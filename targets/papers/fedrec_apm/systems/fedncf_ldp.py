"""FedNCF+LDP: federated neural collaborative filtering, one Laplace budget for all parameters."""

from dataclasses import dataclass

from fedrec_auditor.targets.papers.fedrec_apm.systems.fedncf import FedNcf
from fedrec_auditor.targets.protections.laplace import LaplaceProtection
from fedrec_auditor.targets.systems.federated import Protection, hits


@dataclass(frozen=True, kw_only=True)
class FedNcfLdp(FedNcf):
    """The same epsilon on every parameter; it is not printed, see ``LaplaceProtection``."""

    protection: Protection = LaplaceProtection()

    unprotected = "fedncf"
    place = "section 5.10, Table VI; epsilon is the audit's, none is printed"
    reported = hits(0.070, 0.072, "Table VI")
