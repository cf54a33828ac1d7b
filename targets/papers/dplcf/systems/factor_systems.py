"""Factor models trained centrally on collected bits: BPR-MF and GMF."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from fedrec_auditor.targets.papers.dplcf.systems.parts.central_mf import CentralMf


@dataclass(frozen=True, kw_only=True)
class BprMf(CentralMf):
    """Matrix factorization trained centrally by Bayesian personalized ranking.

    BPR-MF (section 4.1.2; Rendle et al. 2009) on collected bits: scores x_u . y_i.

    The claims and bounds of an upload are those of DPLCF with the same flip. A batch has 1024
    triples (user, positive, negative); regularization acts on the vectors of a triple.
    """

    def kernel(self) -> tuple[Callable[..., int], int]:
        """Compiled loop, which makes one triple of each negative."""
        from fedrec_auditor.targets.papers.dplcf.systems.parts.kernels import bpr_epoch

        return bpr_epoch, self.negatives


@dataclass(frozen=True, kw_only=True)
class Gmf(CentralMf):
    """Generalized matrix factorization trained centrally on the log loss.

    GMF (section 4.1.2; He et al. 2017) on collected bits: scores sum_f h_f x_uf y_if.

    The claims and bounds of an upload are those of DPLCF with the same flip. A batch has about 1024
    examples, every positive together with its negatives; regularization acts on the vectors of an
    example.
    """

    def kernel(self) -> tuple[Callable[..., int], int]:
        """Compiled loop, which makes one example of each positive and negative."""
        from fedrec_auditor.targets.papers.dplcf.systems.parts.kernels import gmf_epoch

        return gmf_epoch, 1 + self.negatives

    def first(self, n_users: int, n_items: int, rng: Generator) -> dict[str, NDArray[np.float64]]:
        """Initial vectors, and weights h (1, F), uniform in +-sqrt(3/F), LeCun's rule."""
        vectors = super().first(n_users, n_items, rng)
        bound = np.sqrt(3.0 / self.factors)
        return vectors | {"weights": rng.uniform(-bound, bound, size=(1, self.factors))}
