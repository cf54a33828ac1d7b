"""FedRec-GN: FedRec with Gaussian noise on every parameter."""

from __future__ import annotations

from dataclasses import dataclass, field

from fedrec_auditor.targets.protections.base import Protection
from fedrec_auditor.targets.protections.gaussian import Gaussian
from fedrec_auditor.targets.systems.fedrec.parts.federated import Federated


@dataclass(frozen=True, kw_only=True)
class FedRecGn(Federated):
    """The Gaussian baseline; sigma, clipping and delta are not printed, see ``Gaussian``.

    Its Hit@20 is drawn in Figure 5 and printed nowhere.
    """

    protection: Protection = field(default_factory=Gaussian)

    name = "fedrec-gn"
    place = "section 5.3 (FedRec-GN)"
