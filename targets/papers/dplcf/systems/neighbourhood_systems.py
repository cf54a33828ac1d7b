"""Item-neighbourhood systems of the DPLCF paper.

The two DPLCF systems correct the item similarities for the random flips of the bits; the LCF
systems do not.
"""

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
    """Item-based collaborative filtering on the true interactions, without privacy protection.

    LCF-UB (section 4.1.2) is the paper's upper bound of the utility of item-based filtering. The
    server receives every interaction in the clear, and the paper promises no privacy for this
    system.
    """

    randomizer = None


@dataclass(frozen=True, kw_only=True)
class LcfSp(FlippedKnn):
    """Item neighbourhoods computed from symmetrically flipped bits, without correction for flips.

    LCF-SP (section 4.1.2) is DPLCF-SP without the estimation step (equations 5 to 10). The uploads
    are the same as in DPLCF-SP, and so are their privacy claims and bounds.
    """

    unprotected = "lcf-ub"
    flip_kind = "symmetric"


@dataclass(frozen=True, kw_only=True)
class LcfAp(FlippedKnn):
    """Item neighbourhoods computed from asymmetrically flipped bits, without correction for flips.

    LCF-AP (section 4.1.2) is DPLCF-AP without the estimation step (equations 5 to 10). The uploads
    are the same as in DPLCF-AP. They are claimed to be epsilon-private, but an uploaded 0 proves
    that the true bit is 0.
    """

    unprotected = "lcf-ub"
    flip_kind = "asymmetric"


@dataclass(frozen=True, kw_only=True)
class DplcfSp(FlippedKnn):
    """DPLCF with symmetric flipping: p = 1 - q = e^eps/(1 + e^eps).

    DPLCF-SP (section 3.2.2) claims epsilon for one interaction; the claim is right and tight.

    The server inverts equation 6 with its two misprints corrected; with ``as_printed`` it inverts
    the printed equation. Both inverses are applied to the uploads after they are sent, so no
    epsilon changes.

    >>> from fedrec_auditor.targets.systems.base import Population
    >>> for scoped in DplcfSp().scoped_claims(Population(n_users=943, n_items=1682))[:2]:
    ...     print(scoped.scope, scoped.claim.epsilon)
    interaction / any pair / server / training 1.0
    user / any pair / server / training 1.0
    """

    as_printed: bool = False

    unprotected = "lcf-ub"
    flip_kind = "symmetric"
    is_corrected = True

    @property
    def printed_inverse(self) -> NDArray[np.float64] | None:
        """Inverse (4, 4) of the matrix A as equation 6 misprints it.

        None unless ``as_printed`` is set.
        """
        flip = self.randomizer
        if not self.as_printed or flip is None:
            return None
        return np.asarray(np.linalg.inv(printed_transition(flip.p, flip.q)), dtype=np.float64)


@dataclass(frozen=True, kw_only=True)
class DplcfAp(FlippedKnn):
    """DPLCF with asymmetric flipping: p = 1, q = e^-eps.

    DPLCF-AP (section 3.2.2) is claimed to be epsilon-private, but an uploaded 0 proves that the
    true bit is 0.

    The ratio p/q = e^eps bounds the likelihood ratio only of an uploaded 1. For an uploaded 0 the
    ratio (1-q)/(1-p) is infinite. The upload is (eps, delta)-private with delta = 1 - e^-eps.

    ``keep`` is p, the probability that a true 1 is uploaded as a 1, with q = p e^-eps. The paper
    takes 1 and states that any value in [1/2, 1] suffices, because p/q <= e^eps. In fact only p <=
    e^eps/(1+e^eps) suffices.

    The server uses the right inverse of A; with ``as_printed`` it uses equation 11, which is for p
    = 1 and makes sim(i, j) differ from sim(j, i). Both inverses are applied to the uploads after
    they are sent, so no epsilon changes.
    """

    keep: Share = 1.0
    as_printed: bool = False

    unprotected = "lcf-ub"
    flip_kind = "asymmetric"
    is_corrected = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.as_printed and self.keep != 1.0:
            raise InputError(
                f"Expected keep=1 with as_printed=True, got keep={self.keep!r}. Equation 11 is "
                "printed for p = 1 only. Leave out keep or as_printed."
            )

    @property
    def printed_inverse(self) -> NDArray[np.float64] | None:
        """Inverse (4, 4) of A as printed in equation 11, with its misprints.

        None unless ``as_printed`` is set.
        """
        return printed_inverse(self.randomizer.q) if self.as_printed else None

    @property
    def randomizer(self) -> BitFlip:
        """Distribution of one uploaded bit, with p = ``keep`` and q = p e^-eps."""
        return BitFlip(self.keep, self.keep * math.exp(-self.epsilon))
