"""FedMF: federated matrix factorization under FedRec's protocol, unprotected."""

from __future__ import annotations

from dataclasses import dataclass, field

from fedrec_auditor.targets.learners.base import Learner
from fedrec_auditor.targets.learners.mf import Mf
from fedrec_auditor.targets.systems.fedrec.parts.federated import Federated


@dataclass(frozen=True, kw_only=True)
class FedMf(Federated):
    """Algorithm 1 with the client of matrix factorization.

    The paper attacks FedMF in Figure 2 and prints no figure of its utility.
    """

    learner: Learner = field(default_factory=Mf)

    name = "fedmf"
    place = "section 1, Figure 2"
