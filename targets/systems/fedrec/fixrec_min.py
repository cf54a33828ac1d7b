"""FixRec-min: FedRec with the smallest noise factor of APM on every parameter."""

from __future__ import annotations

from dataclasses import dataclass, field

from fedrec_auditor.targets.protections.base import Protection
from fedrec_auditor.targets.protections.laplace import Laplace
from fedrec_auditor.targets.systems.fedrec.parts.federated import Federated, hits


@dataclass(frozen=True, kw_only=True)
class FixRecMin(Federated):
    """Noise factor 0.017: epsilon 60 in all components (section 5.7)."""

    protection: Protection = field(default_factory=lambda: Laplace(epsilon=60.0))

    name = "fixrec-min"
    place = "section 5.7"
    reported = hits(0.105, 0.054, "Table III")
