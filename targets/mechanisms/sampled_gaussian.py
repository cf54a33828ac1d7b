"""Normal noise on sums that a unit enters in steps drawn at random, where nobody says in which."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from fedrec_auditor.accountants.events import dp
from fedrec_auditor.accountants.losses.composition import CurveBelow, curve_below
from fedrec_auditor.accountants.losses.pairs import ListedPair, normal_masses
from fedrec_auditor.targets.mechanisms.base import Domain, Size
from fedrec_auditor.targets.mechanisms.parts.additive import LOG_ROOT_TAU
from fedrec_auditor.targets.settings import Checked, NotNegative, Positive, Share, Whole

_CELLS, _REACH = 1 << 15, 9.5
"""Cells of one sum, which reach so many standard deviations beyond the outermost centers."""
_RARE = -92.0
"""Log-probability below which a cell is left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledGaussian(Checked):
    """``rounds`` sums of ``local_steps`` noisy steps; in a share q of all steps the unit is in.

    A step is N(0, z^2), z = ``noise_multiplier``. If the unit is there and drawn, its shift, which
    is 1, is added; if it is not there, minus ``opposite``: 0 for a unit that comes and goes, above
    0 for a change after which what is left pulls the other way. Only the sum of a round is seen.
    With K ~ Binomial(local_steps, q) it is the mixture of N(K, local_steps z^2), or of
    N(-K opposite, local_steps z^2), and rounds are independent. So at one step a round and
    ``opposite`` 0 this is the Poisson-sampled Gaussian with both directions of adding and removing;
    it is one as well where a fixed number of rows is drawn, as far as the rows of one unit go.

    ``delta`` is a lower bound: sums are seen in cells, and their losses on a grid
    (``curve_below``). The ratio of the two densities rises with the sum, so it bounds any system
    from below, too, whose shifts are at least these.

    The value is 1 if the unit is there, else 0. Outputs are sums divided by sqrt(local_steps) z,
    (rounds,). Source: Abadi et al. 2016, section 3.2, for the pair of mixtures.
    """

    noise_multiplier: Positive
    sampling_probability: Share
    rounds: Whole
    local_steps: Whole = 1
    opposite: NotNegative = 0.0

    @property
    def domain(self) -> Domain:
        """0 or 1."""
        return Domain(low=0.0, high=1.0, values=(0.0, 1.0))

    @property
    def output_shape(self) -> tuple[int, ...]:
        """(rounds,)."""
        return (self.rounds,)

    def randomize(self, value: ArrayLike, rng: Generator, size: Size = None) -> NDArray[Any]:
        """Draw sums, float64 of shape (*size, rounds)."""
        values = self.domain.spread(value, size)
        shape = (*values.shape, self.rounds)
        drawn = rng.binomial(self.local_steps, self.sampling_probability, shape)
        return np.asarray(rng.standard_normal(shape) + drawn * self._shift(values)[..., None])

    def log_prob(self, output: ArrayLike, value: ArrayLike) -> NDArray[np.float64]:
        """Log-density of the sums given the value, broadcast."""
        outputs = np.asarray(output, dtype=np.float64)
        shift = self._shift(self.domain.check(value))[..., None]
        return np.asarray(_log_mixture(outputs, shift, *self._draws).sum(axis=-1))

    def worst_case(self) -> None:
        """None: the log-ratio has no bound."""
        return

    def delta(self, epsilon: float) -> float:
        """What all rounds together reach at least, of presence against absence."""
        return _composed(
            1.0 / self._unit,
            self.opposite / self._unit,
            self.sampling_probability,
            self.local_steps,
            self.rounds,
        ).delta(epsilon)

    def event(self) -> dp.DpEvent:
        """Every step's Gaussian, as if it were told which the unit is in: more than is seen."""
        one = dp.GaussianDpEvent(self.noise_multiplier / (1.0 + self.opposite))
        steps = self.rounds * self.local_steps
        return dp.SelfComposedDpEvent(
            dp.RevealedSamplingDpEvent(self.sampling_probability, one), steps
        )

    @property
    def _unit(self) -> float:
        return self.noise_multiplier * math.sqrt(self.local_steps)

    @property
    def _draws(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        return _draws(self.local_steps, self.sampling_probability)

    def _shift(self, values: NDArray[Any]) -> NDArray[np.float64]:
        return np.asarray(np.where(values > 0, 1.0, -self.opposite) / self._unit)


def _draws(steps: int, rate: float) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """How often the unit is drawn in a round, and the logarithms of the probabilities of that."""
    counts = np.arange(steps + 1)
    return counts, stats.binom.logpmf(counts, steps, rate)


def _log_mixture(
    x: NDArray[np.float64], shift: Any, counts: NDArray[Any], log_weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Log-density of a mixture of unit normals ``shift`` apart, one after the other."""
    found = np.full(np.broadcast_shapes(x.shape, np.shape(shift)), -np.inf)
    for count, log_p in zip(counts, log_weights, strict=True):
        z = x - count * shift
        found = np.logaddexp(found, log_p - LOG_ROOT_TAU - 0.5 * z * z)
    return np.asarray(found)


@lru_cache(maxsize=8)
def _composed(up: float, down: float, rate: float, steps: int, rounds: int) -> CurveBelow:
    """All rounds together, of the unit's presence against its absence, one output a cell."""
    counts, log_weights = _draws(steps, rate)
    inner = np.linspace(-down * steps - _REACH, up * steps + _REACH, _CELLS)
    edges = np.concatenate([[-np.inf], inner, [np.inf]])
    there = _log_masses(edges, up, counts, log_weights)
    gone = _log_masses(edges, -down, counts, log_weights) if down else normal_masses(edges)
    seen = (there > _RARE) & (gone > -np.inf)
    return curve_below(((ListedPair.of((there - gone)[seen], there[seen]), rounds),))


def _log_masses(
    edges: NDArray[np.float64], shift: float, counts: NDArray[Any], log_weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Log-probabilities of the cells between ``edges`` under the mixture of unit normals."""
    found = np.full(len(edges) - 1, -np.inf)
    for count, log_p in zip(counts, log_weights, strict=True):
        found = np.logaddexp(found, log_p + normal_masses(edges - count * shift))
    return found
