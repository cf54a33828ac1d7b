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
    """The paper's network: hidden layers of 100 and 30 units, Adam at the usual rate.

    Until the loss on the known users stands still, at most ``epochs`` passes. Its input are the
    coordinates of an upload in the span of the known users' uploads, as many as there are known
    users, scaled as one: gradients of the first layer lie in that span. Adam is not the same after
    a rotation, so these are not the paper's weights. On MovieLens 100K that is 10 to 60 times as
    fast as the columns themselves; compared on the guessed users of four draws, gender was told
    from FedRec's uploads with a macro F1 of .98 instead of .87, from FCF's of .64 in both ways.
    """

    reference: ClassVar[str] = (
        "Zhang et al., Comprehensive Privacy Analysis on Federated Recommender System against "
        "Attribute Inference Attacks, section 3.3 (MLP 100-30)"
    )
    epochs: int = 200

    def guess(self, problem: Problem, table: object, seed: int) -> Guess:
        """Scores are the perceptron's logits."""
        known, others = problem.products.coordinates()
        scale = float(np.sqrt(np.mean(known**2))) or 1.0
        network = Perceptron(HIDDEN, epochs=self.epochs, seed=seed)
        network.fit((known / scale).astype(np.float32), problem.codes)
        scores = network.scores((others / scale).astype(np.float32))
        return Guess(scores.argmax(axis=1), scores)
