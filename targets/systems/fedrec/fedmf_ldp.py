"""FedMF+LDP: federated matrix factorization, one Laplace budget for all parameters."""

from __future__ import annotations

from dataclasses import dataclass, field

from fedrec_auditor.targets.learners.base import Learner
from fedrec_auditor.targets.learners.mf import Mf
from fedrec_auditor.targets.protections.base import Protection
from fedrec_auditor.targets.protections.laplace import Laplace
from fedrec_auditor.targets.systems.fedrec.parts.federated import Federated


@dataclass(frozen=True, kw_only=True)
class FedMfLdp(Federated):
    """The same epsilon on every parameter; it is not printed, see ``Laplace``.

    The paper does not combine MF with noise and prints no figure of its utility.
    """

    learner: Learner = field(default_factory=Mf)
    protection: Protection = field(default_factory=Laplace)

    name = "fedmf-ldp"
    place = "section 1, Figure 2 (base), and section 5.10; epsilon is the audit's, none is printed"
