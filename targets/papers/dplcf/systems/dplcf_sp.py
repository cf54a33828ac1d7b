"""DPLCF with symmetric flipping: p = 1 - q = e^eps/(1 + e^eps)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.targets.papers.dplcf.systems.parts.item_knn import FlippedKnn
from fedrec_auditor.targets.papers.dplcf.systems.parts.jaccard import printed_transition


@dataclass(frozen=True, kw_only=True)
class DplcfSp(FlippedKnn):
    """DPLCF-SP (section 3.2.2): the claim of epsilon for one interaction is right and tight.

    The server inverts equation 6 with its two misprints mended; ``as_printed`` inverts it as it
    stands. Either way it computes from what was sent, and no epsilon changes.

    >>> from fedrec_auditor.targets.systems.base import Population
    >>> for scoped in DplcfSp().scoped_claims(Population(n_users=943, n_items=1682))[:2]:
    ...     print(scoped.scope, scoped.claim.epsilon)
    interaction / any pair / server / training 1.0
    user / any pair / server / training 1.0
    """

    as_printed: bool = False

    unprotected = "lcf-ub"
    kind = "symmetric"
    estimated = True

    @property
    def printed_inverse(self) -> NDArray[np.float64] | None:
        """The inverse of equation 6 as printed."""
        flip = self.randomizer
        if not self.as_printed or flip is None:
            return None
        return np.asarray(np.linalg.inv(printed_transition(flip.p, flip.q)), dtype=np.float64)
