"""Attribute inference from the users whose uploads are the most alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedrec_auditor.attacks.parts.supervised import Guess, Problem, SupervisedAttack


@dataclass(frozen=True, kw_only=True)
class AttributeKnn(SupervisedAttack):
    """Table IV's KNN: the majority among the nearest ``neighbours`` known users.

    Of equally near ones the first count, of equally frequent classes the first is guessed; five
    neighbours are scikit-learn's default.
    """

    reference: ClassVar[str] = (
        "Zhang et al., Comprehensive Privacy Analysis on Federated Recommender System against "
        "Attribute Inference Attacks, section 5.8 (KNN)"
    )
    neighbours: int = 5

    def guess(self, problem: Problem, table: object, seed: int) -> Guess:
        """Votes of the nearest, as shares."""
        _, far = problem.products.distances()
        count = min(self.neighbours, far.shape[1])
        nearest = np.argsort(far, axis=1, kind="stable")[:, :count]
        votes = np.eye(problem.classes)[problem.codes[nearest]].mean(axis=1)
        return Guess(votes.argmax(axis=1), votes)
