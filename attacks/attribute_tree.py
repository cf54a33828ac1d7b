"""Attribute inference with a decision tree on the uploads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sklearn.tree import DecisionTreeClassifier

from fedrec_auditor.attacks.parts.supervised import Classifier, SupervisedAttack


@dataclass(frozen=True, kw_only=True)
class AttributeTree(SupervisedAttack):
    """The paper's second attacker (Table IV): a decision tree, grown until its leaves are pure."""

    reference: ClassVar[str] = (
        "Zhang et al., Comprehensive Privacy Analysis on Federated Recommender System against "
        "Attribute Inference Attacks, section 5.8 (decision tree)"
    )

    def classifier(self, seed: int) -> Classifier:
        """scikit-learn's tree."""
        tree: Classifier = DecisionTreeClassifier(random_state=seed)
        return tree
