"""Item neighbourhoods of collected bits: DPLCF corrects for its flips, LCF does not."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.mechanisms.report_mechanisms import BitFlip
from fedrec_auditor.targets.papers.dplcf.systems.parts.collected_bits import FlippedKnn, ItemKnn
from fedrec_auditor.targets.papers.dplcf.systems.parts.jaccard import (
    printed_inverse,
    printed_transition,
)
from fedrec_auditor.targets.settings import Share


@dataclass(frozen=True, kw_only=True)
class LcfUb(ItemKnn):
    """Item neighbourhoods of the true interactions: the best that item similarity can reach.

    LCF-UB (section 4.1.2): item-based filtering of raw bits, the upper bound of utility.

    The server gets every interaction in the clear, and the paper promises no privacy for it.
    """

    randomizer = None


@dataclass(frozen=True, kw_only=True)
class LcfSp(FlippedKnn):
    """Item neighbourhoods of symmetrically flipped bits, used as if they were not flipped.

    LCF-SP (section 4.1.2): DPLCF-SP without the estimate of what the flips did.

    The uploads are the same as in DPLCF-SP, and so are their claims and bounds.
    """

    unprotected = "lcf-ub"
    kind = "symmetric"


@dataclass(frozen=True, kw_only=True)
class LcfAp(FlippedKnn):
    """Item neighbourhoods of asymmetrically flipped bits, used as if they were not flipped.

    LCF-AP (section 4.1.2): DPLCF-AP without the estimate of what the flips did.

    The uploads are the same as in DPLCF-AP: claimed epsilon-private, but an uploaded 0 proves a 0.
    """

    unprotected = "lcf-ub"
    kind = "asymmetric"


@dataclass(frozen=True, kw_only=True)
class DplcfSp(FlippedKnn):
    """DPLCF with symmetric flipping: p = 1 - q = e^eps/(1 + e^eps).

    DPLCF-SP (section 3.2.2): the claim of epsilon for one interaction is right and tight.

    The server inverts equation 6 with its two misprints corrected; with ``as_printed`` it inverts
    the printed equation. Both are functions of the uploads, so that no epsilon changes.

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
        """Inverse of equation 6 as printed."""
        flip = self.randomizer
        if not self.as_printed or flip is None:
            return None
        return np.asarray(np.linalg.inv(printed_transition(flip.p, flip.q)), dtype=np.float64)


@dataclass(frozen=True, kw_only=True)
class DplcfAp(FlippedKnn):
    """DPLCF with asymmetric flipping: p = 1, q = e^-eps.

    DPLCF-AP (section 3.2.2): claimed epsilon-private, but an uploaded 0 proves a 0.

    p/q = e^eps bounds the ratio only for an uploaded 1; for an uploaded 0 the ratio (1-q)/(1-p) is
    infinite. (eps, delta) holds with delta = 1 - e^-eps.
    ``keep`` is p, with q = p e^-eps: the paper takes 1 and states that any value in [1/2, 1]
    suffices, because p/q <= e^eps. Only p <= e^eps/(1+e^eps) suffices.
    The server uses the inverse of A; with ``as_printed`` it uses equation 11, which is for p = 1
    and makes sim(i, j) differ from sim(j, i). Both are functions of the uploads, so that no epsilon
    changes.
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
                f"Expected keep=1, as in equation 11, got keep={self.keep!r} and "
                "as_printed=True. Leave one of them out."
            )

    @property
    def printed_inverse(self) -> NDArray[np.float64] | None:
        """Equation 11 as printed."""
        return printed_inverse(self.randomizer.q) if self.as_printed else None

    @property
    def randomizer(self) -> BitFlip:
        """Distribution of one uploaded bit: p is ``keep``, q is p e^-eps."""
        return BitFlip(self.keep, self.keep * math.exp(-self.epsilon))
