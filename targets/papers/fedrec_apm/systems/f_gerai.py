"""F-GERAI: FedRec with noise in the objective and in the user's features."""

from dataclasses import dataclass

from fedrec_auditor.targets.protections.objective import Objective
from fedrec_auditor.targets.systems.federated import Federated, Protection


@dataclass(frozen=True, kw_only=True)
class FGerai(Federated):
    """Both stages of GERAI's perturbation on the device; no budget is printed, see ``Objective``.

    Its Hit@20 is drawn in Figure 5 and printed nowhere.
    """

    protection: Protection = Objective(features=True)

    place = "section 5.3 (F-GERAI)"
