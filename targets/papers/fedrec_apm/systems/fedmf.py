"""FedMF: federated matrix factorization under FedRec's protocol, unprotected."""

from dataclasses import dataclass

from fedrec_auditor.targets.learners.mf import Mf
from fedrec_auditor.targets.systems.federated import Federated, Learner


@dataclass(frozen=True, kw_only=True)
class FedMf(Federated):
    """Algorithm 1 with the client of matrix factorization.

    The paper attacks FedMF in Figure 2 and prints no figure of its utility.
    """

    learner: Learner = Mf()

    place = "section 1, Figure 2"
