"""FedMF+APM: federated matrix factorization, a Laplace budget for each component."""

from __future__ import annotations

from dataclasses import dataclass, field

from fedrec_auditor.targets.learners.base import Learner
from fedrec_auditor.targets.learners.mf import Mf
from fedrec_auditor.targets.protections.adaptive_laplace import AdaptiveLaplace
from fedrec_auditor.targets.protections.base import Protection
from fedrec_auditor.targets.systems.fedrec.parts.federated import Federated


@dataclass(frozen=True, kw_only=True)
class FedMfApm(Federated):
    """The budgets of section 5.7 on the components that this client has.

    The paper does not combine MF with noise and prints no figure of its utility.
    """

    learner: Learner = field(default_factory=Mf)
    protection: Protection = field(default_factory=AdaptiveLaplace)

    name = "fedmf-apm"
    place = "section 1, Figure 2 (base), and section 5.10"
