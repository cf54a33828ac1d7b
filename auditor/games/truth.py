"""What guesses are scored against: the data, and what a simulation of the devices knows."""

from __future__ import annotations

from dataclasses import dataclass

from fedrec_auditor.targets.components import Floats
from fedrec_auditor.targets.datasets.base import Interactions


@dataclass(frozen=True, slots=True)
class Truth:
    """The interactions trained on, and ``user_vectors`` of the training (``Run``), or None."""

    interactions: Interactions
    user_vectors: Floats | None = None
