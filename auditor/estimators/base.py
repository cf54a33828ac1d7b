"""What every estimator offers: labelled scores in, a lower bound on epsilon out."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.statements.bound import Bound
from fedrec_auditor.accountants.statements.scope import Scope


class Estimator(Protocol):
    """Turns scores of two worlds into a lower bound that holds at the stated confidence."""

    @property
    def reference(self) -> str:
        """The theorem the bound rests on."""
        ...

    def bound(
        self,
        scores_a: NDArray[Any],
        scores_b: NDArray[Any],
        *,
        delta: float,
        confidence: float,
        scope: Scope,
        rng: np.random.Generator,
    ) -> Bound:
        """Lower bound on epsilon from the scores (n,) of uploads made in world a and in world b."""
        ...
