"""The most powerful distinguisher of two worlds where the randomizer's distribution is public."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.statements.scope import Vantage
from fedrec_auditor.attacks.base import AttackFamily
from fedrec_auditor.targets.transcript import Channel


@dataclass(frozen=True)
class LikelihoodRatio:
    """No test of two worlds beats the likelihood ratio (Neyman and Pearson 1933).

    Scores what one client sent with log P(symbol | first world) - log P(symbol | second world).
    """

    family = AttackFamily.DISTINGUISHER
    vantage = Vantage.SERVER
    reference = "likelihood-ratio test, Neyman and Pearson 1933"

    def score(
        self, outputs: NDArray[Any], channel: Channel, values: tuple[float, float]
    ) -> NDArray[np.float64]:
        """Scores (n,) of outputs (n,); +inf or -inf where one world rules an output out."""
        first, second = (channel.log_prob(outputs, value) for value in values)
        ratio = np.zeros_like(first)  # an output impossible in both worlds tells nothing
        return np.subtract(first, second, where=first != second, out=ratio)
