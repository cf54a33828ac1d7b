"""Random ranking: what any recommender must beat."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from fedrec_auditor.targets.components import Floats, Ints
from fedrec_auditor.targets.compute import Compute
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.papers.fmf_ldp.systems.parts.implicit_mf import CUTOFFS
from fedrec_auditor.targets.streams import Streams
from fedrec_auditor.targets.systems.base import Evaluation, Model
from fedrec_auditor.targets.systems.system import Silent, Trained, Training


@dataclass(frozen=True, kw_only=True)
class Random(Silent):
    """Random (section 4.4.4): every user ranks all items in an order of its own, once and for all.

    Nothing is sent and nothing depends on any interaction, so epsilon is 0. HR@K among 99 sampled
    negatives is K/100.
    """

    evaluation = Evaluation(cutoffs=CUTOFFS)

    def train(self, interactions: Interactions, rng: Generator, compute: Compute) -> Training:
        """Draw a stream a user; nothing is released."""
        yield None
        return Trained(None, {"streams": Streams.spawn(rng, interactions.n_users)})

    def score(self, model: Model, interactions: Interactions, users: Ints) -> Floats:
        """Uniform scores, the same for a user whenever asked."""
        return np.asarray(model.arrays["streams"].take(users).uniform(interactions.n_items))
