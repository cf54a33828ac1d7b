"""FixRec-max: FedRec with the largest noise factor of APM on every parameter."""

from dataclasses import dataclass

from fedrec_auditor.targets.protections.laplace import LaplaceProtection
from fedrec_auditor.targets.systems.federated import Federated, Protection, hits


@dataclass(frozen=True, kw_only=True)
class FixRecMax(Federated):
    """Noise factor 0.033: epsilon 30 in all components (section 5.7)."""

    protection: Protection = LaplaceProtection(epsilon=30.0, every_epoch=True)

    unprotected = "fedrec"
    place = "section 5.7"
    reported = hits(0.067, 0.043, "Table III")
