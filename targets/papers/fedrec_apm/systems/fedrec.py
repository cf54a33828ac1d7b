"""FedRec: a graph-convolutional recommender whose devices send all parameters (Zhang et al.)."""

from dataclasses import dataclass

from fedrec_auditor.targets.systems.federated import Federated


@dataclass(frozen=True, kw_only=True)
class FedRec(Federated):
    """Algorithm 1 with the client of section 3.1 and no protection ("Pure FedRec").

    Its Hit@20 is drawn in Figure 5 and printed nowhere.
    """

    place = "sections 3.1 and 3.2, Algorithm 1"
