"""F-GERAI: FedRec with noise in the objective and in the user's features."""

from __future__ import annotations

from dataclasses import dataclass, field

from fedrec_auditor.targets.protections.base import Protection
from fedrec_auditor.targets.protections.objective import Objective
from fedrec_auditor.targets.systems.fedrec.parts.federated import Federated


@dataclass(frozen=True, kw_only=True)
class FGerai(Federated):
    """Both stages of GERAI's perturbation on the device; no budget is printed, see ``Objective``.

    Its Hit@20 is drawn in Figure 5 and printed nowhere.
    """

    protection: Protection = field(default_factory=lambda: Objective(features=True))

    name = "f-gerai"
    place = "section 5.3 (F-GERAI)"
