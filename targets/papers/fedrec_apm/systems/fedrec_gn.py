"""FedRec-GN: FedRec with Gaussian noise on every parameter."""

from dataclasses import dataclass

from fedrec_auditor.targets.protections.gaussian import GaussianProtection
from fedrec_auditor.targets.systems.federated import Federated, Protection


@dataclass(frozen=True, kw_only=True)
class FedRecGn(Federated):
    """The Gaussian baseline; sigma, clipping and delta are not printed, see ``GaussianProtection``.

    Its Hit@20 is drawn in Figure 5 and printed nowhere.
    """

    protection: Protection = GaussianProtection()

    unprotected = "fedrec"
    place = "section 5.3 (FedRec-GN)"
