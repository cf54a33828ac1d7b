"""Systems of the DPLCF paper: DPLCF, its ablations, and two central baselines.

Clients upload their interaction bits, randomly flipped except in LCF-UB. DPLCF corrects the item
similarities for the flips; LCF does not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.mechanisms.report_mechanisms import BitFlip
from fedrec_auditor.targets.papers.dplcf.collected_bits import CentralMf, FlippedItemKnn, ItemKnn
from fedrec_auditor.targets.papers.dplcf.jaccard import make_printed_inverse, make_printed_matrix
from fedrec_auditor.targets.settings import Share


@dataclass(frozen=True, kw_only=True)
class LcfUb(ItemKnn):
    """Item-based collaborative filtering on the true interactions, without privacy protection.

    LCF-UB (section 4.1.2) is the paper's upper bound of the utility of item-based filtering. The
    server receives every interaction unflipped. The paper promises no privacy.
    """

    randomizer = None


@dataclass(frozen=True, kw_only=True)
class LcfSp(FlippedItemKnn):
    """Item neighbourhoods computed from symmetrically flipped bits, without correction for flips.

    LCF-SP (section 4.1.2) is DPLCF-SP without the estimation step (equations 5 to 10). It has the
    uploads, privacy claims and bounds of DPLCF-SP.

    ``unprotected_name``: command-line name of the system that sends bits without flips.
    """

    unprotected_name = "lcf-ub"
    flip_kind = "symmetric"


@dataclass(frozen=True, kw_only=True)
class LcfAp(FlippedItemKnn):
    """Item neighbourhoods computed from asymmetrically flipped bits, without correction for flips.

    LCF-AP (section 4.1.2) is DPLCF-AP without the estimation step (equations 5 to 10). As in
    DPLCF-AP, its uploads are claimed to be epsilon-private, but an uploaded 0 proves that the true
    bit is 0.

    ``unprotected_name``: command-line name of the system that sends bits without flips.
    """

    unprotected_name = "lcf-ub"
    flip_kind = "asymmetric"


@dataclass(frozen=True, kw_only=True)
class DplcfSp(FlippedItemKnn):
    """DPLCF with symmetric flips: every bit is uploaded flipped with probability 1/(1 + e^eps).

    DPLCF-SP (section 3.2.2) claims epsilon for one interaction; the claim is right and tight. The
    server estimates counts of true bit pairs by the inverse of matrix A (equation 6). A maps true
    counts to expected uploaded counts.

    ``as_printed``: whether the server inverts A as printed, with two misprints; otherwise the right
        A.
    ``unprotected_name``: command-line name of the system that sends bits without flips.

    >>> from fedrec_auditor.targets.systems.base import Population
    >>> for scoped in DplcfSp().get_claims(Population(n_users=943, n_items=1682))[:2]:
    ...     print(scoped.scope, scoped.claim.epsilon)
    interaction / any pair / server / training 1.0
    user / any pair / server / training 1.0
    """

    # The estimation begins after the uploads are sent, so the choice of the inverse does not change
    # epsilon.

    as_printed: bool = False

    unprotected_name = "lcf-ub"
    flip_kind = "symmetric"
    has_flip_correction = True

    @property
    def misprinted_flip_inverse(self) -> NDArray[np.float64] | None:
        """Inverse (4, 4) of matrix A as equation 6 misprints A; None unless ``as_printed`` is set.

        A maps counts of true bit pairs to expected counts of uploaded bit pairs.
        """
        flip = self.randomizer
        if not self.as_printed or flip is None:
            return None
        return np.asarray(np.linalg.inv(make_printed_matrix(flip.p, flip.q)), dtype=np.float64)


@dataclass(frozen=True, kw_only=True)
class DplcfAp(FlippedItemKnn):
    """DPLCF with asymmetric flips: a true 0 is uploaded as a 1 with probability e^-eps.

    By default a true 1 is always uploaded as a 1, as in the paper. DPLCF-AP (section 3.2.2) is
    claimed to be epsilon-private, but an uploaded 0 then proves that the true bit is 0. One bit is
    then only (eps, delta)-private with delta = 1 - e^-eps.

    The server estimates counts of true bit pairs by the inverse of matrix A, which maps true counts
    to expected uploaded counts.

    ``keep``: p, probability that a true 1 is kept: uploaded as a 1. A true 0 is uploaded as a 1
        with probability q = p e^-eps.
    ``as_printed``: whether the server uses equation 11 with its misprints, by which sim(i, j)
        differs from sim(j, i); only for p = 1. Otherwise the misprints are corrected.
    ``unprotected_name``: command-line name of the system that sends bits without flips.
    """

    # The paper states that any p in [1/2, 1] suffices for epsilon, because p/q <= e^eps. In fact
    # only p <= e^eps/(1+e^eps) suffices.
    # The ratio p/q = e^eps bounds the likelihood ratio only of an uploaded 1. For an uploaded 0 the
    # ratio (1-q)/(1-p) is infinite at p = 1. The estimation begins after the uploads are sent, so
    # the choice of the inverse does not change epsilon.

    keep: Share = 1.0
    as_printed: bool = False

    unprotected_name = "lcf-ub"
    flip_kind = "asymmetric"
    has_flip_correction = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.as_printed and self.keep != 1.0:
            raise InputError(
                f"Expected keep=1 with as_printed=True, because the printed equation 11 is for p = "
                f"keep = 1 only, got keep={self.keep!r}. Leave out keep or as_printed."
            )

    @property
    def misprinted_flip_inverse(self) -> NDArray[np.float64] | None:
        """Inverse (4, 4) of matrix A as equation 11 misprints it; None unless ``as_printed``.

        A maps counts of true bit pairs to expected counts of uploaded bit pairs.
        """
        return make_printed_inverse(self.randomizer.q) if self.as_printed else None

    @property
    def randomizer(self) -> BitFlip:
        """Distribution of one uploaded bit given the true bit.

        A 1 is uploaded with probability p = ``keep`` for a true 1, and q = p e^-eps for a true 0.
        """
        return BitFlip(self.keep, self.keep * math.exp(-self.epsilon))


@dataclass(frozen=True, kw_only=True)
class BprMf(CentralMf):
    """Matrix factorization trained centrally by Bayesian personalized ranking.

    BPR-MF (section 4.1.2; Rendle et al. 2009) is trained on the flipped bits that users upload. The
    score of user u for item i is x_u . y_i, with the vectors of both. Uploads have the privacy
    claims and bounds of DPLCF-SP (symmetric flips) or DPLCF-AP (asymmetric flips).
    """

    # A batch has 1024 triples (user, positive, negative). The regularization applies to the three
    # vectors of each triple.

    def get_train_kernel(self) -> tuple[Callable[..., int], int]:
        """Returns the compiled training loop, and its number of triples per positive.

        The loop trains on one chunk of positives and their negatives.
        """
        from fedrec_auditor.targets.papers.dplcf.kernels import train_bpr

        return train_bpr, self.negatives


@dataclass(frozen=True, kw_only=True)
class Gmf(CentralMf):
    """Generalized matrix factorization trained centrally on the log loss.

    GMF (section 4.1.2; He et al. 2017) is trained on the flipped bits that users upload. The score
    of user u for item i is sum_f h_f x_uf y_if, with the vectors of both and output weights h.
    Uploads have the privacy claims and bounds of DPLCF-SP (symmetric flips) or DPLCF-AP (asymmetric
    flips).
    """

    # A batch has about 1024 examples: each positive comes together with its negatives. The
    # regularization applies to the user and item vector of each example.

    def get_train_kernel(self) -> tuple[Callable[..., int], int]:
        """Returns the compiled training loop, and its number of examples per positive.

        The examples are the positive and its negatives.
        """
        from fedrec_auditor.targets.papers.dplcf.kernels import train_gmf

        return train_gmf, 1 + self.negatives

    def init_model(
        self, n_users: int, n_items: int, rng: Generator
    ) -> dict[str, NDArray[np.float64]]:
        """Draws the initial vectors of users and items, and the output weights h.

        The arrays are "users" (n_users, F), "items" (n_items, F) and "weights" (1, F), for F
        factors. The weights are uniform in [-sqrt(3/F), sqrt(3/F)] (LeCun's rule).
        """
        vectors = super().init_model(n_users, n_items, rng)
        bound = np.sqrt(3.0 / self.factors)
        return vectors | {"weights": rng.uniform(-bound, bound, size=(1, self.factors))}
