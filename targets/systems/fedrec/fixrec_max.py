"""FixRec-max: FedRec with the largest noise factor of APM on every parameter."""

from __future__ import annotations

from dataclasses import dataclass, field

from fedrec_auditor.targets.protections.base import Protection
from fedrec_auditor.targets.protections.laplace import Laplace
from fedrec_auditor.targets.systems.fedrec.parts.federated import Federated, hits


@dataclass(frozen=True, kw_only=True)
class FixRecMax(Federated):
    """Noise factor 0.033: epsilon 30 in all components (section 5.7)."""

    protection: Protection = field(default_factory=lambda: Laplace(epsilon=30.0))

    name = "fixrec-max"
    place = "section 5.7"
    reported = hits(0.067, 0.043, "Table III")
