"""Attribute inference with a multi-layer perceptron on the uploads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedrec_auditor.attacks.parts.perceptron import Perceptron
from fedrec_auditor.attacks.parts.supervised import Classifier, SupervisedAttack

HIDDEN = (100, 30)
"""Units of the hidden layers."""


@dataclass(frozen=True, kw_only=True)
class AttributeMlp(SupervisedAttack):
    """The paper's attacker: hidden layers of 100 and 30 units on the whole upload.

    Adam at the usual rate (see ``parts.perceptron``), until the loss on the known users stands
    still, at most ``epochs`` passes. The input is not projected: that weakens the attack.
    """

    reference: ClassVar[str] = (
        "Zhang et al., Comprehensive Privacy Analysis on Federated Recommender System against "
        "Attribute Inference Attacks, section 3.3 (MLP 100-30)"
    )
    epochs: int = 200

    def classifier(self, seed: int) -> Classifier:
        """A perceptron trained by torch."""
        return Perceptron(HIDDEN, epochs=self.epochs, seed=seed)
