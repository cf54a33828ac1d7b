"""PrivRec-CEN: the same learning on data that the server has collected."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fedrec_auditor.accountants.statements.claim import Claim
from fedrec_auditor.accountants.statements.scope import Horizon, Unit, Vantage, any_pair
from fedrec_auditor.targets.compute import Compute
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.systems.base import DEFAULT, Population, Progress, Question, Run
from fedrec_auditor.targets.systems.privrec.parts.meta_learned import PAPER, reported
from fedrec_auditor.targets.systems.privrec.privrec import PrivRec
from fedrec_auditor.targets.transcript import Broadcast, Uploads


@dataclass(frozen=True, kw_only=True)
class PrivRecCen(PrivRec):
    """PrivRec-CEN (section 4.1): Algorithm 1 with each user as a task, all within the server.

    The server is given everybody's data as they are and is trusted with them; all that leaves it
    is the model that it ends with. So the transcript has a release and no rounds, and is audited
    from there. Learning is the same: PrivRec ends in the same model from the same seed.
    """

    name = "privrec-cen"
    reported = reported((0.127, 0.163, 0.207, 0.252), (0.109, 0.138, 0.178, 0.212))

    def questions(self, population: Population) -> tuple[Question, ...]:
        """No epsilon is promised, and nothing else: it is the bound of utility."""
        claim = Claim(
            epsilon=math.inf,
            scope=any_pair(Unit.USER, Vantage.RELEASE, Horizon.TRAINING),
            statement="No epsilon is promised: the server has all data and publishes a model.",
            source=f"{PAPER}, section 4.1 (PrivRec-CEN)",
        )
        return (Question(claim=claim, scope=claim.scope),)

    def run(
        self,
        interactions: Interactions,
        rng: np.random.Generator,
        progress: Progress | None = None,
        compute: Compute = DEFAULT,
    ) -> Run:
        """PrivRec's training within the server; ``progress`` is told its rounds."""
        model, n = self.first(interactions, rng), interactions.n_users
        for number in range(self.rounds):
            chosen = np.sort(rng.choice(n, size=self.drawn(n), replace=False))
            changes = super().upload(interactions.take(chosen), model, rng, compute=compute)
            model = self.step(model, changes, rng)
            if progress is not None:
                progress(number + 1, self.rounds)
        return self.finish(interactions, (), model, rng, route=Vantage.RELEASE)

    def upload(
        self,
        profiles: Interactions,
        broadcast: Broadcast | None,
        rng: np.random.Generator,
        size: int = 1,
        compute: Compute = DEFAULT,
    ) -> Uploads:
        """Messages without any component: nothing is sent by the protocol."""
        return Uploads(np.repeat(np.arange(profiles.n_users), size), {})
