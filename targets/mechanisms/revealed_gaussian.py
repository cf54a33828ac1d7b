"""Normal noise on a number in some of many uses, drawn at random, where all see which."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from fedrec_auditor.accountants.events import dp
from fedrec_auditor.accountants.losses.gaussian import gaussian_divergence
from fedrec_auditor.targets.mechanisms.base import Domain, Size
from fedrec_auditor.targets.mechanisms.parts.additive import check_mu
from fedrec_auditor.targets.settings import AboveZero, Checked, Share, Whole, check

_RARE = 1e-30
"""Numbers of uses of a smaller probability are left out of the curve, which is lower by that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RevealedGaussian(Checked):
    """K Gaussians of multiplier z, K ~ Binomial(count, q): delta(eps) = E delta(eps; sqrt(K)/z).

    In each of ``count`` uses the row that the value stands in is drawn with probability
    q = ``sampling_probability``. The value, in [0, 1] in units of the sensitivity, enters the noisy
    sum N(0, z^2) then, and only then. The adversary sees all sums and all draws: the row has other
    values, as large, whose sums show when it is drawn. So it knows which sums to add up, and K of
    them are worth one Gaussian of mu = sqrt(K)/z; the draws do not depend on the value, and the
    curve is the mean of the curves given K, exactly. Sampling by rows amplifies nothing for one
    value in a row of several; for a row of one, or for whole rows, see ``SampledGaussian``.

    An output is [mark, sum] a use, (count, 2): the mark is N(0, 1), and below its q-quantile if the
    row is drawn. Source: the sampling of Li et al. 2021, section 4.1.2, applied to the per-rating
    privacy of section 2.2.1, of which the paper's accountant says that it is amplified.
    """

    noise_multiplier: AboveZero
    sampling_probability: Share
    count: Whole

    def __post_init__(self) -> None:
        check(self)
        check_mu(math.sqrt(self.count) / self.noise_multiplier, "noise_multiplier")

    @property
    def domain(self) -> Domain:
        """[0, 1], in units of the sensitivity."""
        return Domain(low=0.0, high=1.0)

    @property
    def output_shape(self) -> tuple[int, ...]:
        """For every use whether it was sampled, and the noisy sum: (count, 2)."""
        return (self.count, 2)

    def randomize(self, value: ArrayLike, rng: Generator, size: Size = None) -> NDArray[Any]:
        """Draw marks and sums, float64 of shape (*size, count, 2)."""
        values = self.domain.spread(value, size)
        marks, noise = rng.standard_normal((2, *values.shape, self.count))
        sums = noise * self.noise_multiplier + values[..., None] * self._drawn(marks)
        return np.stack([marks, sums], axis=-1)

    def log_prob(self, output: ArrayLike, value: ArrayLike) -> NDArray[np.float64]:
        """Log-density of marks and sums given the value, broadcast."""
        outputs, values = np.asarray(output, dtype=np.float64), self.domain.check(value)
        marks, sums = outputs[..., 0], outputs[..., 1]
        center = values[..., None] * self._drawn(marks)
        each = stats.norm.logpdf(sums, center, self.noise_multiplier) + stats.norm.logpdf(marks)
        return np.asarray(each.sum(axis=-1))

    def worst_case(self) -> None:
        """None: the log-ratio has no bound."""
        return

    def delta(self, epsilon: float) -> float:
        """The mean over K of Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu), mu = sqrt(K)/z."""
        counts = np.arange(1, self.count + 1)
        weights = stats.binom.pmf(counts, self.count, self.sampling_probability)
        kept = weights > _RARE
        curve = [
            gaussian_divergence(math.sqrt(k) / self.noise_multiplier, epsilon) for k in counts[kept]
        ]
        return float(weights[kept] @ np.array(curve))

    def event(self) -> dp.DpEvent:
        """Gaussians of which the adversary knows whether they happen."""
        one = dp.GaussianDpEvent(self.noise_multiplier)
        return dp.SelfComposedDpEvent(
            dp.RevealedSamplingDpEvent(self.sampling_probability, one), self.count
        )

    def _drawn(self, marks: NDArray[np.float64]) -> NDArray[np.bool_]:
        return np.asarray(marks < stats.norm.ppf(self.sampling_probability))
