"""PrivRec-CEN: the same learning on data that the server has collected."""

from __future__ import annotations

from dataclasses import dataclass

from numpy.random import Generator

from fedrec_auditor.targets.compute import Compute
from fedrec_auditor.targets.datasets.base import Interactions
from fedrec_auditor.targets.papers.privrec.systems.privrec import PrivRec
from fedrec_auditor.targets.systems.system import Central, Training


@dataclass(frozen=True, kw_only=True)
class PrivRecCen(Central, PrivRec):
    """PrivRec-CEN (section 4.1): Algorithm 1 with each user as a task, all within the server.

    The server is given everybody's data as they are and is trusted with them; all that leaves it
    is the model that it ends with. So the transcript has a release and no rounds, and is audited
    from there. Learning is the same: PrivRec ends in the same model from the same seed.
    """

    def train(self, interactions: Interactions, rng: Generator, compute: Compute) -> Training:
        """PrivRec's training within the server."""
        return PrivRec(**vars(self)).train(interactions, rng, compute)
