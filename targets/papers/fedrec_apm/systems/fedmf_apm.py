"""FedMF+APM: federated matrix factorization, a Laplace budget for each component."""

from dataclasses import dataclass

from fedrec_auditor.targets.papers.fedrec_apm.systems.fedmf import FedMf
from fedrec_auditor.targets.protections.adaptive_laplace import AdaptiveLaplace
from fedrec_auditor.targets.systems.federated import Protection


@dataclass(frozen=True, kw_only=True)
class FedMfApm(FedMf):
    """The budgets of section 5.7 on the components that this client has.

    The paper does not combine MF with noise and prints no figure of its utility.
    """

    protection: Protection = AdaptiveLaplace()

    unprotected = "fedmf"
    place = "section 1, Figure 2 (base), and section 5.10"
