"""Attribute inference with a multi-layer perceptron on the uploads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedrec_auditor.accountants.statements.scope import Vantage
from fedrec_auditor.attacks.base import AttackFamily, Background, Labels
from fedrec_auditor.attacks.parts.perceptron import Perceptron
from fedrec_auditor.attacks.parts.supervised import carries_uploads, learn, seed
from fedrec_auditor.targets.transcript import View


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributeMlp:
    """The paper's attacker: hidden layers of 100 and 30 units on the whole upload.

    Adam at the usual rate (see ``parts.perceptron``), until the loss on the known users stands
    still, at most ``epochs`` passes. The input is not projected: that weakens the attack.
    """

    family: ClassVar[AttackFamily] = AttackFamily.ATTRIBUTE
    vantage: ClassVar[Vantage] = Vantage.SERVER
    reference: ClassVar[str] = (
        "Zhang et al., Comprehensive Privacy Analysis on Federated Recommender System against "
        "Attribute Inference Attacks, section 3.3 (MLP 100-30)"
    )
    epochs: int = 200

    def applies(self, view: View) -> bool:
        """Whether the view links uploads to users."""
        return carries_uploads(view)

    def infer(self, view: View, background: Background, rng: np.random.Generator) -> Labels:
        """Guess the attribute of every user whose label is not known."""
        model = Perceptron((100, 30), epochs=self.epochs, seed=seed(rng))
        return learn(view, background, model)
