"""Nothing held out: what was trained on is given, and how well it recommends is not measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from fedrec_auditor.auditor.utility.held import Held
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.systems.base import Model, Target, Unscored


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldNothing(Held):
    """All interactions were trained on."""

    def evaluate(
        self, target: Target, model: Model, *, confidence: float, rng: np.random.Generator
    ) -> NoReturn:
        """Unscored."""
        raise Unscored("Nothing is held out of the data: utility is not measured.")


def hold_out(interactions: Interactions, rng: np.random.Generator) -> HeldNothing:
    """All interactions; ``rng`` is not drawn from."""
    return HeldNothing(train=interactions)
