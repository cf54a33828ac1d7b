"""F-GERAI: item rows that a device did not train on come back bit for bit, and tell on it."""

from __future__ import annotations

from dataclasses import dataclass

from accountants.scope import Unit
from auditor.demonstrations._row_kept import row_kept
from auditor.demonstrations.base import Contest
from targets.protections.adaptive_laplace import AdaptiveLaplace
from targets.protections.objective import Objective
from targets.systems.f_gerai import FGerai
from targets.systems.fedrec_apm import FedRecApm


@dataclass(frozen=True, kw_only=True)
class FGeraiRows:
    """Noise in the objective moves only the rows that are trained: an unmoved item is not held.

    The paper prints no epsilon; what holds for 10 holds for the ``epsilon`` of 1 taken here, and
    for any other: a held item's row never comes back unmoved. The control is fedrec-apm, whose
    noise covers all rows, at the same epsilon for an entry; with embeddings of one number that is
    the row.
    """

    samples: int = 20_000
    epsilon: float = 1.0

    target = "f-gerai"
    entries = ("20c",)

    def violation(self) -> Contest:
        """Noise in the objective."""
        return row_kept(
            FGerai(protection=Objective(epsilon=self.epsilon, features=True)), self.samples
        )

    def control(self) -> Contest:
        """Noise on every row that is sent."""
        e = self.epsilon
        noise = AdaptiveLaplace(user=e, item=e, mlp1=e, mlp2=e)
        return row_kept(FedRecApm(protection=noise), self.samples, Unit.COORDINATE)
