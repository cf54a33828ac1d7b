"""Attribute inference with a multi-layer perceptron on the uploads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedrec_auditor.attacks.parts.perceptron import Perceptron
from fedrec_auditor.attacks.parts.supervised import Guess, Problem, SupervisedAttack

HIDDEN = (100, 30)
"""Units of the hidden layers."""


@dataclass(frozen=True, kw_only=True)
class AttributeMlp(SupervisedAttack):
    """The paper's attacker: hidden layers of 100 and 30 units on the whole upload.

    Adam at the usual rate (see ``parts.perceptron``), until the loss on the known users stands
    still, at most ``epochs`` passes. The input is rotated into the span of the known users'
    uploads, as many coordinates as there are known users, and scaled as one: nothing that gradients
    of the first layer could see is lost. On MovieLens 100K that is 10 to 60 times as fast as the
    columns themselves, and stronger where these are many: a macro F1 of .98 instead of .87 for
    gender from FedRec's uploads, of .64 in both ways from FCF's.
    """

    reference: ClassVar[str] = (
        "Zhang et al., Comprehensive Privacy Analysis on Federated Recommender System against "
        "Attribute Inference Attacks, section 3.3 (MLP 100-30)"
    )
    epochs: int = 200

    def guess(self, problem: Problem, table: object, seed: int) -> Guess:
        """A perceptron trained by torch; scores are its logits."""
        known, others = problem.products.coordinates()
        scale = float(np.sqrt(np.mean(known**2))) or 1.0
        network = Perceptron(HIDDEN, epochs=self.epochs, seed=seed)
        network.fit((known / scale).astype(np.float32), problem.codes)
        scores = network.scores((others / scale).astype(np.float32))
        return Guess(scores.argmax(axis=1), scores)
