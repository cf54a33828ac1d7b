"""Attribute inference with a decision tree on the uploads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.attacks.parts.supervised import Guess, Problem, SupervisedAttack


@dataclass(frozen=True, kw_only=True)
class AttributeTree(SupervisedAttack):
    """Table IV's decision tree, grown until its leaves are pure."""

    reference: ClassVar[str] = (
        "Zhang et al., Comprehensive Privacy Analysis on Federated Recommender System against "
        "Attribute Inference Attacks, section 5.8 (decision tree)"
    )
    reads_columns: ClassVar[bool] = True

    def guess(self, problem: Problem, values: NDArray[np.float32] | None, seed: int) -> Guess:
        """scikit-learn's tree; its scores are the shares of classes in a leaf."""
        from sklearn.tree import DecisionTreeClassifier

        known, others = problem.columns(values)
        tree = DecisionTreeClassifier(random_state=seed).fit(known, problem.codes)
        shares = tree.predict_proba(others)
        return Guess(shares.argmax(axis=1), shares)
