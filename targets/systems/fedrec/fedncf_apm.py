"""FedNCF+APM: federated neural collaborative filtering, a Laplace budget for each component."""

from __future__ import annotations

from dataclasses import dataclass, field

from fedrec_auditor.targets.learners.base import Learner
from fedrec_auditor.targets.learners.ncf import Ncf
from fedrec_auditor.targets.protections.adaptive_laplace import AdaptiveLaplace
from fedrec_auditor.targets.protections.base import Protection
from fedrec_auditor.targets.systems.fedrec.parts.federated import Federated, hits


@dataclass(frozen=True, kw_only=True)
class FedNcfApm(Federated):
    """The budgets of section 5.7 on the components that this client has."""

    learner: Learner = field(default_factory=Ncf)
    protection: Protection = field(default_factory=AdaptiveLaplace)

    name = "fedncf-apm"
    place = "section 5.10, Table VI"
    reported = hits(0.073, 0.074, "Table VI")
