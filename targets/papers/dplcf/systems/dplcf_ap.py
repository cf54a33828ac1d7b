"""DPLCF with asymmetric flipping: p = 1, q = e^-eps."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.mechanisms.bit_flip import BitFlip
from fedrec_auditor.targets.papers.dplcf.systems.parts.item_knn import FlippedKnn
from fedrec_auditor.targets.papers.dplcf.systems.parts.jaccard import printed_inverse
from fedrec_auditor.targets.settings import Share


@dataclass(frozen=True, kw_only=True)
class DplcfAp(FlippedKnn):
    """DPLCF-AP (section 3.2.2): claimed epsilon-private, but an uploaded 0 proves a 0.

    p/q = e^eps bounds the ratio for an uploaded 1 only; for an uploaded 0 the ratio
    (1-q)/(1-p) is infinite. What does hold is (eps, delta) with delta = 1 - e^-eps.

    ``keep`` is p, with q = p e^-eps: the paper takes 1 and says that any value in [1/2, 1] would
    do, since p/q <= e^eps suffices. Only p <= e^eps/(1+e^eps) does.

    The server takes the inverse of A; ``as_printed`` takes equation 11, which is for p = 1 and
    makes sim(i, j) another than sim(j, i). It computes from what was sent: no epsilon changes.
    """

    keep: Share = 1.0
    as_printed: bool = False

    unprotected = "lcf-ub"
    kind = "asymmetric"
    estimated = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.as_printed and self.keep != 1.0:
            raise InputError(
                f"Expected keep=1 as equation 11 has it, got keep={self.keep!r} and "
                "as_printed=True. Leave one of them out."
            )

    @property
    def printed_inverse(self) -> NDArray[np.float64] | None:
        """Equation 11 as printed."""
        return printed_inverse(self.randomizer.q) if self.as_printed else None

    @property
    def randomizer(self) -> BitFlip:
        """The distribution of one uploaded bit: p is ``keep``, q is p e^-eps."""
        return BitFlip(self.keep, self.keep * math.exp(-self.epsilon))
