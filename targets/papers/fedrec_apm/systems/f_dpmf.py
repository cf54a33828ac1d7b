"""F-DPMF: federated matrix factorization with noise in the objective of the item rows."""

from dataclasses import dataclass

from fedrec_auditor.targets.learners.mf import Mf
from fedrec_auditor.targets.protections.objective import Objective
from fedrec_auditor.targets.systems.federated import Federated, Learner, Protection


@dataclass(frozen=True, kw_only=True)
class FDpmf(Federated):
    """DPMF's objective perturbation on the MF client with DPMF's squared loss; see ``Objective``.

    Its Hit@20 is drawn in Figure 5 and printed nowhere.
    """

    learner: Learner = Mf(loss="squared")
    protection: Protection = Objective(loss="squared")

    place = "section 5.3 (F-DPMF)"
