"""F-GERAI-NL: FedRec with noise in the objective only."""

from dataclasses import dataclass

from fedrec_auditor.targets.protections.objective import Objective
from fedrec_auditor.targets.systems.federated import Federated, Protection


@dataclass(frozen=True, kw_only=True)
class FGeraiNl(Federated):
    """F-GERAI without its perturbation of features; see ``Objective``.

    Its Hit@20 is drawn in Figure 5 and printed nowhere.
    """

    protection: Protection = Objective()

    place = "section 5.3 (F-GERAI-NL)"
