"""FedMF+LDP: federated matrix factorization, one Laplace budget for all parameters."""

from dataclasses import dataclass

from fedrec_auditor.targets.papers.fedrec_apm.systems.fedmf import FedMf
from fedrec_auditor.targets.protections.laplace import LaplaceProtection
from fedrec_auditor.targets.systems.federated import Protection


@dataclass(frozen=True, kw_only=True)
class FedMfLdp(FedMf):
    """The same epsilon on every parameter; it is not printed, see ``LaplaceProtection``.

    The paper does not combine MF with noise and prints no figure of its utility.
    """

    protection: Protection = LaplaceProtection()

    unprotected = "fedmf"
    place = "section 1, Figure 2 (base), and section 5.10; epsilon is the audit's, none is printed"
