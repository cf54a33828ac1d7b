"""Evaluation protocol without held-out data: all data are training data, and utility is not
measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from fedrec_auditor.auditor.utility.held_out import HeldOutData
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.systems.base import Model, NoScores, Target


@dataclass(frozen=True, slots=True, kw_only=True)
class NothingHeldOut(HeldOutData):
    """Training data without any held-out data, for systems whose utility is not measured."""

    def evaluate(
        self, target: Target, model: Model, *, confidence: float, rng: np.random.Generator
    ) -> NoReturn:
        """Raises NoScores, because there are no held-out data."""
        raise NoScores("Nothing is held out of the data, so utility is not measured.")


def hold_out(interactions: Interactions, rng: np.random.Generator) -> NothingHeldOut:
    """Returns all interactions as training data; ``rng`` is not used."""
    return NothingHeldOut(train=interactions)
