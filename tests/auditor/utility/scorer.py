"""Target for tests that only scores items."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.systems.base import Model, UtilityTest


@dataclass(frozen=True)
class Scorer:
    """A target with scores from a table, or from a function of the interactions and the users."""

    by: Any
    evaluation: UtilityTest = UtilityTest()  # noqa: RUF009
    name: str = "scorer"
    reported_metrics: tuple[Any, ...] = ()
    unprotected_name: str = ""

    def score(self, model: Model, interactions: Interactions, users: Any) -> Any:
        return self.by(interactions, users) if callable(self.by) else self.by[users]
