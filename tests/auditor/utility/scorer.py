"""A target of which nothing but its scores is asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.systems.base import Evaluation, Model


@dataclass(frozen=True)
class Scorer:
    """Scores by a table, or by a function of what its devices hold and of the users asked for."""

    by: Any
    evaluation: Evaluation = Evaluation()  # noqa: RUF009
    name: str = "scorer"
    reported: tuple[Any, ...] = ()
    unprotected: str = ""

    def score(self, model: Model, interactions: Interactions, users: Any) -> Any:
        return self.by(interactions, users) if callable(self.by) else self.by[users]
