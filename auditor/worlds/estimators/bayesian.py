"""A credible lower limit of epsilon: a posterior of two proportions, not a guarantee."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import optimize, special

from fedrec_auditor.auditor.worlds.estimators.base import Assumption
from fedrec_auditor.auditor.worlds.estimators.clopper_pearson import ClopperPearson
from fedrec_auditor.auditor.worlds.estimators.parts.counting import EventCounts

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(512)
_PRIOR = 0.5  # Jeffreys
_FAR = 700.0  # no epsilon is larger: e to it is the largest double


@dataclass(frozen=True)
class Bayesian(ClopperPearson):
    """Epsilon is above the bound with this probability, a posteriori, of the event chosen.

    The event is chosen as ``clopper-pearson`` does. Its chances P and Q have independent Beta
    posteriors from Jeffreys' prior, and the bound is the quantile of ln((P - delta) / Q) that the
    posterior has. Tighter than two Clopper-Pearson limits, for it splits no error between them; but
    conditional on the prior: of a fixed truth it is above it about as often as its error says, not
    at most so often.
    """

    reference = "Zanella-Beguelin et al. 2023, Bayesian estimation of differential privacy"
    conditional: ClassVar[Assumption] = Assumption.PRIOR
    source: ClassVar[str] = "posterior of two proportions on held-out samples"
    assumptions: ClassVar[tuple[str, ...]] = ("Jeffreys' prior of the two chances of the event",)

    def epsilon(self, counts: EventCounts, *, delta: float, alpha: float, share: float) -> float:
        """The posterior quantile at ``alpha``; ``share`` does not matter.

        The chance that ln((P - delta) / Q) is below some epsilon is the mean of P's distribution at
        delta + e^epsilon Q over Q's, here by Gauss and Legendre over the quantiles of Q.
        """
        hits, trials, misses, others = counts
        a, b = hits + _PRIOR, trials - hits + _PRIOR
        q = special.betaincinv(misses + _PRIOR, others - misses + _PRIOR, (_NODES + 1) / 2)

        def excess(epsilon: float) -> float:
            reached = np.minimum(delta + np.exp(epsilon) * q, 1.0)
            return float(special.betainc(a, b, reached) @ _WEIGHTS) / 2 - alpha

        return 0.0 if excess(0.0) >= 0 else float(optimize.brentq(excess, 0.0, _FAR))
