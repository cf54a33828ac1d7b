"""Normal noise on sums that a unit enters in steps drawn at random, where nobody says in which."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import signal, stats
from scipy.special import ndtr

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.mechanisms.base import Domain
from fedrec_auditor.targets.mechanisms.parts.additive import (
    _LOG_ROOT_TAU,
    check_count,
    check_mu,
    check_positive,
)

if TYPE_CHECKING:
    from dp_accounting import DpEvent

_CELLS, _REACH = 1 << 15, 9.5
"""Cells of one sum, which reach so many standard deviations beyond the outermost centers."""
_ERROR, _LOSSES = 0.02, 1 << 16
"""Losses are rounded down by so much in all, or to so many of them."""
_ROUNDING, _TAIL, _RARE = 2.0**-52, 1e-15, 1e-40
"""Of the convolution: lost a round, cut off in all; and cells that are left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledGaussian:
    """``rounds`` sums of ``local_steps`` noisy steps; in a share q of all steps the unit is in.

    A step is N(0, z^2), z = ``noise_multiplier``. If the unit is there and drawn, its shift, which
    is 1, is added; if it is not there, minus ``opposite``: 0 for a unit that comes and goes, above
    0 for a change after which what is left pulls the other way. Only the sum of a round is seen.
    With K ~ Binomial(local_steps, q) its law is the mixture of N(K, local_steps z^2), or of
    N(-K opposite, local_steps z^2), and rounds are independent. So at one step a round and
    ``opposite`` 0 this is the Poisson-sampled Gaussian with both directions of adding and removing;
    it is one as well where a fixed number of rows is drawn, as far as the rows of one unit go.

    ``divergence`` is a lower bound: losses are rounded down to a grid before they are composed,
    which costs 0.02 of epsilon or a few thousandths of it. The ratio of the two laws rises with the
    sum, so it bounds any system from below, too, whose shifts are at least these.

    The value is 1 if the unit is there, else 0. Outputs are sums divided by sqrt(local_steps) z,
    (rounds,). Source: Abadi et al. 2016, section 3.2, for the pair of mixtures.
    """

    noise_multiplier: float
    sampling_probability: float
    rounds: int
    local_steps: int = 1
    opposite: float = 0.0

    def __post_init__(self) -> None:
        check_positive(noise_multiplier=self.noise_multiplier)
        check_count(rounds=self.rounds, local_steps=self.local_steps)
        if not 0.0 < self.sampling_probability <= 1.0:
            raise InputError(
                f"Expected sampling_probability in (0, 1], got {self.sampling_probability!r}. "
                "Give the share of steps in which the row is drawn."
            )
        if not 0.0 <= self.opposite < math.inf:
            raise InputError(
                f"Expected a finite opposite >= 0, got opposite={self.opposite!r}. Give a shift in "
                "units of the other one."
            )
        check_mu(1.0 / self.noise_multiplier, "noise_multiplier")

    @property
    def domain(self) -> Domain:
        """0 or 1."""
        return Domain(low=0.0, high=1.0, values=(0.0, 1.0))

    @property
    def output_shape(self) -> tuple[int, ...]:
        """(rounds,)."""
        return (self.rounds,)

    def randomize(
        self, value: ArrayLike, rng: np.random.Generator, size: tuple[int, ...] | None = None
    ) -> NDArray[Any]:
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

    def critical(self) -> None:
        """None: the log-ratio has no bound."""
        return

    def divergence(self, epsilon: float) -> float:
        """What all rounds together reach at least, of presence against absence."""
        curve = _composed(
            1.0 / self._unit,
            self.opposite / self._unit,
            self.sampling_probability,
            self.local_steps,
            self.rounds,
        )
        return max(0.0, curve.divergence(epsilon) - _TAIL - self.rounds * _ROUNDING)

    def event(self) -> DpEvent:
        """Every step's Gaussian, as if it were told which the unit is in: more than is seen."""
        from dp_accounting import GaussianDpEvent, SelfComposedDpEvent

        from fedrec_auditor.accountants.events.leaves import RevealedSamplingDpEvent

        one = GaussianDpEvent(self.noise_multiplier / (1.0 + self.opposite))
        steps = self.rounds * self.local_steps
        return SelfComposedDpEvent(RevealedSamplingDpEvent(self.sampling_probability, one), steps)

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
    x: NDArray[np.float64], shift: Any, counts: NDArray[Any], log_law: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Log-density of a mixture of unit normal laws ``shift`` apart, one after the other."""
    found = np.full(np.broadcast_shapes(x.shape, np.shape(shift)), -np.inf)
    for count, log_p in zip(counts, log_law, strict=True):
        z = x - count * shift
        found = np.logaddexp(found, log_p - _LOG_ROOT_TAU - 0.5 * z * z)
    return np.asarray(found)


@dataclass(frozen=True, slots=True)
class _Curve:
    """Losses (first + i) step, i = 0, 1, ..., of probability at least ``tails[i] - tails[i + 1]``.

    ``scaled[i]`` is the sum over j >= i of their probabilities times e^(loss i - loss j).
    """

    step: float
    first: int
    tails: NDArray[np.float64]
    scaled: NDArray[np.float64]

    def divergence(self, epsilon: float) -> float:
        """The mean of max(0, 1 - e^(epsilon - loss)), in constant time."""
        i = max(0, math.ceil(epsilon / self.step) - self.first)
        if i >= len(self.tails):
            return 0.0
        above = math.exp(min(0.0, epsilon - (self.first + i) * self.step))
        return float(self.tails[i] - above * self.scaled[i])


@lru_cache(maxsize=8)
def _composed(up: float, down: float, rate: float, steps: int, rounds: int) -> _Curve:
    """Losses of all rounds, from 0 on, of the unit's presence against its absence.

    Every cell of a sum has the probability that it has, and the loss at its lower end.
    """
    from dp_accounting.pld.common import self_convolve

    counts, log_law = _draws(steps, rate)
    x = np.linspace(-down * steps - _REACH, up * steps + _REACH, _CELLS + 1)
    likely = log_law > -100.0  # what is left out of the presence's law only lowers the curve
    there = _log_mixture(x, up, counts[likely], log_law[likely])
    gone = _log_mixture(x, -down, counts, log_law) if down else -_LOG_ROOT_TAU - 0.5 * x * x
    cells = np.zeros(_CELLS)
    for count, log_p in zip(counts[likely], log_law[likely], strict=True):
        z = x - count * up
        # Differences of whichever tail is small: the other would cancel.
        cells += math.exp(log_p) * np.where(z[1:] <= 0, np.diff(ndtr(z)), -np.diff(ndtr(-z)))
    seen = cells > _RARE
    loss, cells = (there - gone)[:-1][seen], cells[seen]
    step = max(_ERROR / rounds, float(np.ptp(loss)) / _LOSSES)
    place = np.floor(loss / step).astype(np.int64)
    low = int(place.min())
    shift, mass = self_convolve(np.bincount(place - low, weights=cells), rounds, _TAIL)
    first = rounds * low + int(shift)
    kept = np.maximum(np.asarray(mass)[max(0, -first) :], 0.0)
    back = kept[::-1]
    scaled = signal.lfilter([1.0], [1.0, -math.exp(-step)], back)[::-1]
    return _Curve(step, max(first, 0), np.cumsum(back)[::-1], scaled)
