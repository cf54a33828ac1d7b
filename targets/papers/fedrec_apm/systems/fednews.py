"""FedNews: FedRec with one Laplace budget for all parameters, as FedNewsRec has it."""

from dataclasses import dataclass

from fedrec_auditor.targets.protections.laplace import LaplaceProtection
from fedrec_auditor.targets.systems.federated import Federated, Protection


@dataclass(frozen=True, kw_only=True)
class FedNews(Federated):
    """The LDP baseline on FedRec's client; its epsilon is not printed, see ``LaplaceProtection``.

    Its Hit@20 is drawn in Figure 5 and printed nowhere.
    """

    protection: Protection = LaplaceProtection()

    place = "section 5.3 (FedNews); epsilon is the audit's, none is printed"
