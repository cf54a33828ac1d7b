"""A base recommender, what protects its uploads, and how they reach the server."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.features import user_features
from fedrec_auditor.targets.learners.base import Catalogue, Learner
from fedrec_auditor.targets.learners.gcn import Gcn
from fedrec_auditor.targets.protections.base import Protection
from fedrec_auditor.targets.protections.unprotected import Unprotected
from fedrec_auditor.targets.routes.base import Route
from fedrec_auditor.targets.routes.direct import Direct
from fedrec_auditor.targets.settings import check_settings, positive, share, whole
from fedrec_auditor.targets.systems.base import Evaluation, Population
from fedrec_auditor.targets.systems.parts.system import System

PAPER = "Zhang, Yuan, Yin: Comprehensive Privacy Analysis on Federated Recommender System (APM)"


@dataclass(frozen=True, kw_only=True)
class Composition(System):
    """The settings of Algorithm 1 and the three parts of a system.

    ``epochs``, ``batch``, ``learning_rate`` and ``share`` of the users a round are the paper's
    (section 5.4; the share is 0.1 on ML-1M). ``negatives`` is its q, which it does not print; 4 is
    usual. The paper trains until convergence, which plain SGD at its rate does not reach in an
    audit's time: ``rounds`` = 30 is a stop of ours. On ML-100K (leave last out, all items; random
    is 0.013) Hit@20 is then 0.016 for FedRec, 0.026 for FedNCF and 0.059 for FedLightGCN, and
    still rises: 0.045 for FedRec after 100 rounds, where the paper's variants have 0.1.
    ``best`` is the best rating of the scale, for the users' features; higher ratings count as it.
    """

    learner: Learner = Gcn()
    protection: Protection = Unprotected()
    route: Route = Direct()
    rounds: int = 30
    share: float = 0.5
    epochs: int = 5
    batch: int = 32
    negatives: int = 4
    learning_rate: float = 0.001
    optimizer: Literal["sgd", "adam"] = "sgd"
    best: float = 5.0

    paper = PAPER
    evaluation = Evaluation(cutoffs=(20,))
    place: ClassVar[str]
    """Where in the paper this composition and its promise stand."""

    def __post_init__(self) -> None:
        check_settings(self, rounds=whole, epochs=whole, batch=whole, negatives=whole)
        check_settings(self, share=share, learning_rate=positive, best=positive)
        for group in self.learner.groups:
            self.protection.coordinate(group)  # refuses a group that it has no budget for

    def entries(self, population: Population) -> dict[str, int]:
        """Entries of an upload by group of components."""
        catalogue = Catalogue(n_items=population.n_items, n_user_features=population.n_features)
        found = dict.fromkeys(self.learner.groups, 0)
        for name, shape in self.learner.shapes(catalogue).items():
            found[name.partition(".")[0]] += math.prod(shape)
        return found

    def senders(self, n_users: int) -> int:
        """Users of one round: at least one where there are any."""
        return max(1, round(self.share * n_users)) if n_users else 0

    def features(self, interactions: Interactions) -> NDArray[np.float32]:
        """What devices know of their users, (n_users, d1): Table I of the paper."""
        ratings = interactions.ratings
        if ratings.nnz and ratings.data.max() > self.best:
            capped = ratings.copy()
            np.minimum(capped.data, np.float32(self.best), out=capped.data)
            interactions = replace(interactions, ratings=capped)
        return user_features(interactions, best=self.best).values
