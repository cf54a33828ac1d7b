"""Attribute inference with a decision tree on the uploads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from sklearn.tree import DecisionTreeClassifier

from fedrec_auditor.accountants.statements.scope import Vantage
from fedrec_auditor.attacks.base import AttackFamily, Background, Labels
from fedrec_auditor.attacks.parts.supervised import carries_uploads, learn, seed
from fedrec_auditor.targets.transcript import View


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributeTree:
    """The paper's second attacker (Table IV): a decision tree, grown until its leaves are pure."""

    family: ClassVar[AttackFamily] = AttackFamily.ATTRIBUTE
    vantage: ClassVar[Vantage] = Vantage.SERVER
    reference: ClassVar[str] = (
        "Zhang et al., Comprehensive Privacy Analysis on Federated Recommender System against "
        "Attribute Inference Attacks, section 5.8 (decision tree)"
    )

    def applies(self, view: View) -> bool:
        """Whether the view links uploads to users."""
        return carries_uploads(view)

    def infer(self, view: View, background: Background, rng: np.random.Generator) -> Labels:
        """Guess the attribute of every user whose label is not known."""
        return learn(view, background, DecisionTreeClassifier(random_state=seed(rng)))
