"""FedNews: FedRec with one Laplace budget for all parameters, as FedNewsRec has it."""

from __future__ import annotations

from dataclasses import dataclass, field

from fedrec_auditor.targets.protections.base import Protection
from fedrec_auditor.targets.protections.laplace import Laplace
from fedrec_auditor.targets.systems.fedrec.parts.federated import Federated


@dataclass(frozen=True, kw_only=True)
class FedNews(Federated):
    """The LDP baseline on FedRec's client; its epsilon is not printed, see ``Laplace``.

    Its Hit@20 is drawn in Figure 5 and printed nowhere.
    """

    protection: Protection = field(default_factory=Laplace)

    name = "fednews"
    place = "section 5.3 (FedNews); epsilon is the audit's, none is printed"
