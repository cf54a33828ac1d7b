"""FedNCF+LDP: federated neural collaborative filtering, one Laplace budget for all parameters."""

from __future__ import annotations

from dataclasses import dataclass, field

from fedrec_auditor.targets.learners.base import Learner
from fedrec_auditor.targets.learners.ncf import Ncf
from fedrec_auditor.targets.protections.base import Protection
from fedrec_auditor.targets.protections.laplace import Laplace
from fedrec_auditor.targets.systems.fedrec.parts.federated import Federated, hits


@dataclass(frozen=True, kw_only=True)
class FedNcfLdp(Federated):
    """The same epsilon on every parameter; it is not printed, see ``Laplace``."""

    learner: Learner = field(default_factory=Ncf)
    protection: Protection = field(default_factory=Laplace)

    name = "fedncf-ldp"
    place = "section 5.10, Table VI; epsilon is the audit's, none is printed"
    reported = hits(0.070, 0.072, "Table VI")
