"""FedLightGCN+LDP: federated LightGCN, one Laplace budget for all parameters."""

from __future__ import annotations

from dataclasses import dataclass, field

from fedrec_auditor.targets.learners.base import Learner
from fedrec_auditor.targets.learners.light_gcn import LightGcn
from fedrec_auditor.targets.protections.base import Protection
from fedrec_auditor.targets.protections.laplace import Laplace
from fedrec_auditor.targets.systems.fedrec.parts.federated import Federated, hits


@dataclass(frozen=True, kw_only=True)
class FedLightGcnLdp(Federated):
    """The same epsilon on every parameter; it is not printed, see ``Laplace``."""

    learner: Learner = field(default_factory=LightGcn)
    protection: Protection = field(default_factory=Laplace)

    name = "fedlightgcn-ldp"
    place = "section 5.10, Table VI; epsilon is the audit's, none is printed"
    reported = hits(0.073, 0.077, "Table VI")
