"""The server's average of clipped updates, and the share of clients that were not clipped."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.targets.mechanisms.parts.additive import Normal, RealVector, check_mu, clip_norm
from fedrec_auditor.targets.settings import AboveZero, Range, Whole, check


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateAverage(RealVector, Normal):
    """A round of DP-PrivRec: step * (average of updates clipped to S) and the share b, noisy.

    One of ``batch`` = M clients is replaced, the others are fixed (at update 0, without loss: they
    only shift the output). The sensitivity of the average is 2S/M, and of the share 1/M, where
    the paper says 2/M: b lies in {0, 1}. With its noise, sigma_Delta = (2S/M) z / sqrt(1 - h) and
    sigma_b = (2/M) z / sqrt(h), the two distances in units of noise are step sqrt(1 - h)/z and
    sqrt(h)/(2z), attained together by an update of norm S and an opposite one beyond S. So

        mu = sqrt(step^2 (1 - h) + h/4) / z,

    where the paper's doubled sensitivity of the share gives 1/z at step 1, on the safe side. The
    paper is wrong in three places:

    * line 9 adds the noise after the step alpha3, so that a larger step is not paid for: the
      multiplier z is not kept once step^2 (1 - h) + h/4 > 1.
    * the proof's z1 = 1/(z sqrt(1 - h)), z2 = 1/(z sqrt(h)) make a joint multiplier of 1/z, which
      is the algorithm's z at z = 1 only.
    * lines 22-23 compute b after clipping, where it is 1 whatever the update (``counts_clipped``):
      the share says nothing, mu = step sqrt(1 - h)/z, and S drifts through zero.

    The server adds the noise: this is what its broadcast shows, while the server itself sees every
    update as it is. Source: Wang et al. 2021 (VLDB J.), Algorithm 2 lines 8-11 and 22-23,
    Theorem 1, section 2.3.4.

    Inputs are raw updates, (*batch, dimension); an output is [average, share], dimension + 1 long.
    """

    multiplier: AboveZero
    clip: AboveZero
    batch: Whole
    dimension: Whole
    balance: Annotated[float, Range("(0, 1)", "in (0, 1): VectorGaussian releases no share")]
    step: AboveZero = 1.0
    counts_clipped: bool = False

    def __post_init__(self) -> None:
        check(self)
        check_mu(self.mu, "a multiplier")

    @property
    def mu(self) -> float:
        """Distance of the worst pair, both queries together."""
        share = 0.0 if self.counts_clipped else 0.25 * self.balance
        return math.sqrt(self.step**2 * (1.0 - self.balance) + share) / self.multiplier

    @property
    def output_shape(self) -> tuple[int, ...]:
        """The noisy average (dimension,) and the noisy share."""
        return (self.dimension + 1,)

    @property
    def noise_scale(self) -> NDArray[np.float64]:
        """sigma_Delta for every entry of the average, sigma_b for the share."""
        scale = np.full(self.output_shape, self.clip / math.sqrt(1.0 - self.balance))
        scale[-1] = 1.0 / math.sqrt(self.balance)
        return np.asarray(scale * (2.0 * self.multiplier / self.batch))

    def center(self, value: NDArray[Any]) -> NDArray[np.float64]:
        """[step * clipped update / M, (M - 1 + b) / M]."""
        clipped = clip_norm(value, self.clip)
        kept = np.all(clipped == value, axis=-1) | self.counts_clipped
        share = (self.batch - 1 + kept) / self.batch
        return np.concatenate([self.step * clipped / self.batch, share[..., None]], axis=-1)
