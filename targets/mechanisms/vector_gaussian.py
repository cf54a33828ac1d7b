"""Gaussian noise on a vector that is clipped in norm first."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.losses.gaussian import gaussian_mu
from fedrec_auditor.targets.mechanisms.parts.additive import Normal, RealVector, check_mu, clip_norm
from fedrec_auditor.targets.settings import AboveZero, Whole, check


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorGaussian(RealVector, Normal):
    """x min(1, C/|x|) + N(0, sigma^2 I): mu = 2C/sigma, for any pair of vectors.

    Two vectors of norm C may be opposite, so the sensitivity is 2C whenever one vector is
    replaced by another; C alone is right only where a vector is added or removed, that is, set
    against 0. No epsilon holds at delta 0. The whole vector is the unit: its length costs nothing
    here, unlike noise that is calibrated to one entry. Noise must cover every entry, also those
    that are 0 because nothing touched them: an entry without noise tells 0 from everything else
    with certainty, and so which rows of an item table a user touched.
    Source: Dwork et al. 2006 and, for the exact curve, Balle and Wang 2018, Theorem 8; FedRec-GN
    of Zhang et al. (section 5), which prints neither C, sigma nor delta.
    """

    sigma: AboveZero
    clip: AboveZero
    dimension: Whole

    def __post_init__(self) -> None:
        check(self)
        check_mu(self.mu, "sigma")

    @classmethod
    def calibrated(cls, *, epsilon: float, delta: float, clip: float, dimension: int) -> Self:
        """The least noise that is (epsilon, delta)-private for any pair, at any epsilon."""
        one = cls(sigma=1.0, clip=clip, dimension=dimension)
        return replace(one, sigma=one.mu / gaussian_mu(epsilon, delta))

    @property
    def mu(self) -> float:
        """The distance of opposite vectors in standard deviations, 2C/sigma."""
        return 2.0 * self.clip / self.sigma

    def center(self, value: NDArray[Any]) -> NDArray[np.float64]:
        """What the noise is added to: the vector, clipped in norm."""
        return clip_norm(value, self.clip)
