"""The exact bound of a law that is a table: inputs by outputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.statements.bound import Bound
from fedrec_auditor.accountants.statements.scope import Scope
from fedrec_auditor.auditor.exact import exact_lower_bound
from fedrec_auditor.targets.mechanisms.base import Critical

if TYPE_CHECKING:
    from fedrec_auditor.targets.mechanisms.base import Mechanism


@dataclass(frozen=True, slots=True)
class Table:
    """Log-probabilities (inputs, outputs) with words for either: a mechanism of known law.

    Outputs may be left out: no ratio or divergence over fewer of them is above the true one.
    """

    laws: NDArray[np.float64]
    name_input: Callable[[int], str]
    name_output: Callable[[int], str]

    def critical(self) -> Critical:
        """All there is."""
        inputs, outputs = map(np.arange, self.laws.shape)
        return Critical(
            inputs=inputs,
            outputs=outputs,
            exhaustive=True,
            name_input=lambda i: self.name_input(int(i)),
            name_output=lambda j: self.name_output(int(j)),
        )

    def log_prob(self, output: Any, value: Any) -> NDArray[np.float64]:
        """The table, which is asked for as a whole."""
        return self.laws

    def bound(self, scope: Scope, delta: float) -> Bound:
        """The exact lower bound over all pairs of its inputs."""
        return exact_lower_bound(cast("Mechanism", self), scope, delta)
