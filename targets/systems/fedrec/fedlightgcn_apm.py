"""FedLightGCN+APM: federated LightGCN, a Laplace budget for each component."""

from __future__ import annotations

from dataclasses import dataclass, field

from fedrec_auditor.targets.learners.base import Learner
from fedrec_auditor.targets.learners.light_gcn import LightGcn
from fedrec_auditor.targets.protections.adaptive_laplace import AdaptiveLaplace
from fedrec_auditor.targets.protections.base import Protection
from fedrec_auditor.targets.systems.fedrec.parts.federated import Federated, hits


@dataclass(frozen=True, kw_only=True)
class FedLightGcnApm(Federated):
    """The budgets of section 5.7 on the components that this client has."""

    learner: Learner = field(default_factory=LightGcn)
    protection: Protection = field(default_factory=AdaptiveLaplace)

    name = "fedlightgcn-apm"
    place = "section 5.10, Table VI"
    reported = hits(0.076, 0.080, "Table VI")
