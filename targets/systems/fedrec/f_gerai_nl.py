"""F-GERAI-NL: FedRec with noise in the objective only."""

from __future__ import annotations

from dataclasses import dataclass, field

from fedrec_auditor.targets.protections.base import Protection
from fedrec_auditor.targets.protections.objective import Objective
from fedrec_auditor.targets.systems.fedrec.parts.federated import Federated


@dataclass(frozen=True, kw_only=True)
class FGeraiNl(Federated):
    """F-GERAI without its perturbation of features; see ``Objective``.

    Its Hit@20 is drawn in Figure 5 and printed nowhere.
    """

    protection: Protection = field(default_factory=Objective)

    name = "f-gerai-nl"
    place = "section 5.3 (F-GERAI-NL)"
