"""A lower bound on epsilon if the trade-off of the two errors is that of two Gaussians."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import special

from fedrec_auditor.accountants.losses.gaussian import gaussian_epsilon
from fedrec_auditor.auditor.worlds.estimators.base import Assumption
from fedrec_auditor.auditor.worlds.estimators.clopper_pearson import ClopperPearson
from fedrec_auditor.auditor.worlds.estimators.parts.binomial_limits import (
    clopper_pearson_lower,
    clopper_pearson_upper,
)
from fedrec_auditor.auditor.worlds.estimators.parts.counting import EventCounts


@dataclass(frozen=True)
class GaussianTradeOff(ClopperPearson):
    """Holds at the stated confidence if the worlds are as apart as two Gaussians of deviation 1.

    The event is chosen as ``clopper-pearson`` does, and its two chances are limited alike. If no
    test of the worlds does better than one of N(mu, 1) against N(0, 1), then mu is at least the
    distance of the two limits' normal quantiles; epsilon follows at any delta, also at those far
    below 1/n that no count resolves. That mu is a lower bound needs no assumption of the scores;
    that epsilon is at least its epsilon needs the mechanism to be Gaussian: of randomized response
    the bound is wrong.
    """

    reference = "Dong, Roth and Su 2022 (f-DP); Nasr et al. 2023; Clopper and Pearson 1934"
    conditional: ClassVar[Assumption] = Assumption.GAUSSIAN
    source: ClassVar[str] = "Gaussian trade-off through one event, held-out samples"
    assumptions: ClassVar[tuple[str, ...]] = (
        "the two worlds have the trade-off curve of two Gaussians of one deviation",
    )

    def merit(
        self, counts: EventCounts, *, delta: float, alpha: float, share: float = 0.5
    ) -> NDArray[np.float64]:
        """The least mu that explains the counts, at least 0: epsilon grows with it."""
        hits, trials, misses, others = counts
        low = clopper_pearson_lower(hits, trials, alpha * share)
        high = clopper_pearson_upper(misses, others, alpha * (1 - share))
        apart = np.where(low > 0, special.ndtri(low) - special.ndtri(high), 0.0)
        return np.asarray(np.maximum(apart, 0.0))

    def epsilon(self, counts: EventCounts, *, delta: float, alpha: float, share: float) -> float:
        """Epsilon at ``delta`` of the least mu that explains the counts."""
        mu = self.merit(counts, delta=delta, alpha=alpha, share=share)
        return gaussian_epsilon(delta, float(mu))
