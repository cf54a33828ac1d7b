"""Matrix factorization trained centrally by Bayesian personalized ranking."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fedrec_auditor.targets.papers.dplcf.systems.parts.central_mf import CentralMf


@dataclass(frozen=True, kw_only=True)
class BprMf(CentralMf):
    """BPR-MF (section 4.1.2; Rendle et al. 2009) on collected bits: scores x_u . y_i.

    What is claimed and true of the upload is what is of DPLCF's with the same flip. A batch has
    1024 triples (user, positive, negative); regularization acts on the vectors of a triple.
    """

    def kernel(self) -> tuple[Callable[..., int], int]:
        """The compiled loop, which makes a triple of each negative."""
        from fedrec_auditor.targets.papers.dplcf.systems.parts.central_kernel import bpr_epoch

        return bpr_epoch, self.negatives
