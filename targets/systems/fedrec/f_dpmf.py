"""F-DPMF: federated matrix factorization with noise in the objective of the item rows."""

from __future__ import annotations

from dataclasses import dataclass, field

from fedrec_auditor.targets.learners.base import Learner
from fedrec_auditor.targets.learners.mf import Mf
from fedrec_auditor.targets.protections.base import Protection
from fedrec_auditor.targets.protections.objective import Objective
from fedrec_auditor.targets.systems.fedrec.parts.federated import Federated


@dataclass(frozen=True, kw_only=True)
class FDpmf(Federated):
    """DPMF's objective perturbation on the MF client; see ``Objective``.

    Its Hit@20 is drawn in Figure 5 and printed nowhere.
    """

    learner: Learner = field(default_factory=Mf)
    protection: Protection = field(default_factory=lambda: Objective(loss="squared"))

    name = "f-dpmf"
    place = "section 5.3 (F-DPMF)"
