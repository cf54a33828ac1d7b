"""Central baselines of the DPLCF paper: BPR-MF and GMF, factor models trained on collected bits."""

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

    BPR-MF (section 4.1.2; Rendle et al. 2009) is trained on the collected bits. The score of user u
    for item i is x_u . y_i, the product of the vectors of user and item.

    An upload has the privacy claims and bounds of DPLCF with the same flip. A batch has 1024
    triples (user, positive, negative). The regularization applies to the three vectors of each
    triple.
    """

    def train_kernel(self) -> tuple[Callable[..., int], int]:
        """Returns the compiled training loop for one chunk of examples, and the number of triples
        that it makes of each positive.
        """
        from fedrec_auditor.targets.papers.dplcf.systems.parts.kernels import bpr_epoch

        return bpr_epoch, self.negatives


@dataclass(frozen=True, kw_only=True)
class Gmf(CentralMf):
    """Generalized matrix factorization trained centrally on the log loss.

    GMF (section 4.1.2; He et al. 2017) is trained on the collected bits. The score of user u for
    item i is sum_f h_f x_uf y_if, with the vectors x_u and y_i of user and item, and trained output
    weights h.

    An upload has the privacy claims and bounds of DPLCF with the same flip. A batch has about 1024
    examples: each positive comes together with its negatives. The regularization applies to the
    user and item vector of each example.
    """

    def train_kernel(self) -> tuple[Callable[..., int], int]:
        """Returns the compiled training loop for one chunk of examples, and the number of examples
        (with negatives) per positive.
        """
        from fedrec_auditor.targets.papers.dplcf.systems.parts.kernels import gmf_epoch

        return gmf_epoch, 1 + self.negatives

    def first_model(
        self, n_users: int, n_items: int, rng: Generator
    ) -> dict[str, NDArray[np.float64]]:
        """Draws the initial user vectors (n_users, F), item vectors (n_items, F) and output weights
        h (1, F), by name.

        The weights h are uniform in [-sqrt(3/F), sqrt(3/F)] (LeCun's rule), for F factors.
        """
        vectors = super().first_model(n_users, n_items, rng)
        bound = np.sqrt(3.0 / self.factors)
        return vectors | {"weights": rng.uniform(-bound, bound, size=(1, self.factors))}
