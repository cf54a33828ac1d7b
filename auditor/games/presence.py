"""A user who comes and goes, as a client plays it whose empty history sends a message, too.

Papers take the number of users for public, so that a user who is not there is one without items.
If its message moves nothing, that is the same. If it does, any two histories are two removals
apart, one of either message, and those that differ most are played. Who is (epsilon, delta)-private
for one is (2 epsilon, (1 + e^epsilon) delta)-private for two, so that a bound for two at
(1 + e^e) delta is one for one at delta: half of it, or e if that is less. By the definition, used
twice; compare Vadhan 2017, The complexity of differential privacy, Lemma 2.2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedrec_auditor.accountants.statements.bound import Bound
from fedrec_auditor.auditor.worlds.estimators.base import Estimator
from fedrec_auditor.auditor.worlds.worlds import Worlds

_BEYOND = 1.1, 0.05  # times the claim and more: what half a bound may reach


@dataclass(frozen=True, kw_only=True)
class Halved(Estimator):
    """Bounds for one removal by an ``estimator``'s for two.

    Above delta 0 they reach somewhat beyond ``claimed``, and no farther.
    """

    estimator: Estimator
    claimed: float

    @property
    def reference(self) -> str:
        """The estimator's, and group privacy."""
        return f"{self.estimator.reference}; group privacy, as Vadhan 2017, Lemma 2.2"

    def _two(self, delta: float) -> tuple[float, float]:
        """The delta of a bound for two, and what a bound for one can then be at most."""
        if delta == 0:
            return 0.0, math.inf
        factor, more = _BEYOND
        most = factor * self.claimed + more if math.isfinite(self.claimed) else 1.0
        wide = min(delta * (1 + math.exp(min(most, 700.0))), (1 + delta) / 2)
        return wide, math.log(max(wide / delta - 1, 1.0))

    def bounds(
        self,
        worlds: Worlds,
        *,
        delta: float,
        confidences: Sequence[float],
        samples: int,
        rng: np.random.Generator,
    ) -> tuple[Bound, ...]:
        """Half of those for two, at ``delta``."""
        wide, most = self._two(delta)
        found = self.estimator.bounds(
            worlds, delta=wide, confidences=confidences, samples=samples, rng=rng
        )
        text = "half of it, for the message of an empty history moves something, too"
        return tuple(
            replace(
                bound,
                epsilon=min(bound.epsilon / 2, most),
                largest=None if bound.largest is None else min(bound.largest / 2, most),
                delta=delta,
                source=f"{bound.source}; {text}",
            )
            for bound in found
        )

    def largest(self, samples: int, *, delta: float, confidence: float) -> float:
        """Half of the largest for two."""
        wide, most = self._two(delta)
        return min(self.estimator.largest(samples, delta=wide, confidence=confidence) / 2, most)
