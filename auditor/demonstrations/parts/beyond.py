"""An event fixed beforehand: a score at or beyond a threshold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Scores = Callable[[int, int, np.random.Generator], NDArray[np.float64]]
"""As ``Contest.sample``: world, number of runs, coins; one number a run."""


@dataclass(frozen=True, slots=True)
class Beyond:
    """1 for runs whose score reaches ``threshold``, else 0.

    Where the law of a score is known, so is the event that shows most. A pilot of any size would
    have to find it again, among events too rare to be ranked by it.
    """

    scores: Scores
    threshold: float

    def __call__(self, world: int, size: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """The event of ``size`` runs."""
        return (self.scores(world, size, rng) >= self.threshold).astype(np.float64)
