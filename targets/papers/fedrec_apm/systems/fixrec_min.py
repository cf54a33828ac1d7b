"""FixRec-min: FedRec with the smallest noise factor of APM on every parameter."""

from dataclasses import dataclass

from fedrec_auditor.targets.protections.laplace import LaplaceProtection
from fedrec_auditor.targets.systems.federated import Federated, Protection, hits


@dataclass(frozen=True, kw_only=True)
class FixRecMin(Federated):
    """Noise factor 0.017: epsilon 60 in all components (section 5.7)."""

    protection: Protection = LaplaceProtection(epsilon=60.0, every_epoch=True)

    unprotected = "fedrec"
    place = "section 5.7"
    reported = hits(0.105, 0.054, "Table III")
