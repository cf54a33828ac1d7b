"""The first stage of local federated matrix factorization, alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from numpy.random import Generator

from fedrec_auditor.targets.components import Floats, Ints
from fedrec_auditor.targets.compute import Compute
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.papers.federated_mf.systems.parts.sgd_mf import explicit, start
from fedrec_auditor.targets.papers.federated_mf.systems.parts.user_fit import predicted
from fedrec_auditor.targets.settings import Factors, Scale, Whole
from fedrec_auditor.targets.systems.base import Evaluation, Model, Split
from fedrec_auditor.targets.systems.system import Silent, Trained, Training


@dataclass(frozen=True, kw_only=True)
class LflPretrained(Silent):
    """Stage 1 of LFL-SGDMF as a baseline (section 6.3, Figure 10): V stays as it is drawn.

    The server sends a random V, the same to all, and every device fits its user embedding to it
    (Figure 3d, steps s1 and c1). Devices send nothing, so that nothing is given away.
    """

    factors: Factors = 20
    bound: Scale = 5.0
    fitting: Annotated[Whole, "steps in which a device fits its embedding to V"] = 20

    evaluation = Evaluation(split=Split.HELD_OUT_RATINGS, cutoffs=())

    def takes(self, interactions: Interactions) -> dict[str, float]:
        """Steps that fit users."""
        return {"width": self.factors, "passes": self.fitting}

    def train(self, interactions: Interactions, rng: Generator, compute: Compute) -> Training:
        """V is drawn; nothing crosses."""
        explicit(interactions, self.bound)
        items = start(rng.random((interactions.n_items, self.factors)), self.bound)
        yield None
        return Trained(None, {"items": items})

    def score(self, model: Model, interactions: Interactions, users: Ints) -> Floats:
        """Predicted ratings u.v, (len(users), n_items), each user fitted to V."""
        asked, items = interactions.take(users), model.arrays["items"]
        return predicted(asked, items, bound=self.bound, steps=self.fitting)
