"""Discrete Gaussian and discrete Laplace noise on a grid, drawn exactly with integers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Self

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.events import dp
from fedrec_auditor.targets.mechanisms.base import WorstCase
from fedrec_auditor.targets.mechanisms.parts.bases import PureDpMixin, check_epsilon_range, round_up
from fedrec_auditor.targets.mechanisms.parts.grid import GridNoise, draw_bernoulli_exp, draw_laplace
from fedrec_auditor.targets.settings import PositiveFloat

_DIGITS = 2**53
# Number of sigmas after which sums stop; the omitted outputs contribute less than 2^-60 of a sum.
_TAIL = 12.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscreteGaussian(GridNoise):
    """Rounds an entry to a grid and adds discrete Gaussian noise, without floating-point leaks.

    ``sigma``: standard deviation of the continuous Gaussian with the same exponent.
    ``low``, ``high``: ends of the range of an entry.
    ``step``: step of the grid, a power of two.

    The noise is k grid steps with a probability proportional to e^(-(k step)^2/(2 sigma^2)), for
    integers k. The mean output is the rounded input (see ``GridNoise``).

    No epsilon holds at delta 0. The mechanism is D^2/(2 sigma^2)-zCDP, where the sensitivity D is
    the distance of the rounded ends of the range (Canonne, Kamath and Steinke 2020, Theorem 4). At
    some deltas its privacy curve is above that of the Gaussian mechanism.
    """

    # The noise is sampled by Algorithm 3 of the same paper. All steps use integers except for the
    # acceptance probability, a double. The relative error of a probability is at most 1e-14, and no
    # probability becomes 0.

    sigma: PositiveFloat

    def __post_init__(self) -> None:
        GridNoise.__post_init__(self)
        self._check_noise("sigma", self.sigma, 2.0**-9, 2.0**16)

    def delta(self, epsilon: float) -> float:
        """Returns the exact delta at ``epsilon``.

        Let P and Q be the output distributions for the inputs ``low`` and ``high``. The delta is
        the sum of P - e^epsilon Q over the outputs with P/Q above e^epsilon.
        """
        # Inputs that are closer to each other have smaller deltas. The outputs with P/Q above
        # e^epsilon are those below some k. For inputs D grid steps apart the delta is therefore the
        # largest F(k) - e^epsilon F(k - D) over all k, where F is the cumulative distribution
        # function of the noise. This value grows with D. No term is negative, and the omitted terms
        # amount to less than rounding errors.
        sigma, width = self.sigma / self.step, self.sensitivity_steps
        last = math.ceil(width / 2.0 - epsilon * sigma**2 / width) - 1
        reach = math.ceil(_TAIL * sigma) + 2
        k = np.arange(min(last, 0) - reach, min(last, reach) + 1, dtype=np.float64)
        loss = width * (width - 2.0 * k) / (2.0 * sigma**2)
        terms = np.exp(self._log_mass(k)) * -np.expm1(np.minimum(epsilon - loss, 0.0))
        return float(terms.sum())

    def worst_case(self) -> None:
        """Returns None, because the privacy loss is unbounded."""
        return None

    def event(self) -> dp.DpEvent:
        """Returns the accounting event: rho-zCDP with rho = D^2/(2 sigma^2).

        D is the sensitivity, the distance of the rounded ends of the range.
        """
        return dp.ZCDpEvent((self.sensitivity_steps * self.step / self.sigma) ** 2 / 2.0)

    def _draw_noise(self, rng: np.random.Generator, size: int) -> NDArray[np.int64]:
        sigma = self.sigma / self.step
        scale = math.floor(sigma) + 1
        out, pending = np.zeros(size, dtype=np.int64), np.arange(size)
        while pending.size:
            drawn = draw_laplace(Fraction(scale), rng, pending.size)
            cost = (np.abs(drawn) - sigma**2 / scale) ** 2 / (2.0 * sigma**2)
            whole = np.floor(cost)
            digits = np.rint((cost - whole) * _DIGITS).astype(np.int64)
            accepted = draw_bernoulli_exp(digits, _DIGITS, rng, pending.size)
            accepted[accepted] = draw_bernoulli_exp(
                whole[accepted].astype(np.int64), 1, rng, int(accepted.sum())
            )
            out[pending[accepted]] = drawn[accepted]
            pending = pending[~accepted]
        return out

    def _log_mass(self, steps: NDArray[np.float64]) -> NDArray[np.float64]:
        sigma = self.sigma / self.step
        return np.asarray(-0.5 * (steps / sigma) ** 2 - _log_normalizer(sigma))


def _log_normalizer(sigma: float) -> float:
    """Returns ln of the sum of e^(-k^2/(2 sigma^2)) over all integers k.

    Poisson summation is used if sigma >= 1.
    """
    k = np.arange(1.0, 40.0)
    if sigma < 1.0:
        return math.log1p(2.0 * float(np.exp(-0.5 * (k / sigma) ** 2).sum()))
    folded = 2.0 * float(np.exp(-2.0 * (math.pi * sigma * k) ** 2).sum())
    return math.log(sigma) + 0.5 * math.log(2.0 * math.pi) + math.log1p(folded)


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscreteLaplace(PureDpMixin, GridNoise):
    """Rounds an entry to a grid and adds discrete Laplace noise, without floating-point leaks.

    ``scale``: scale of the continuous Laplace noise with the same exponent.
    ``low``, ``high``: ends of the range of an entry.
    ``step``: step of the grid, a power of two.

    The noise is k grid steps with probability tanh(step/(2 scale)) e^(-|k| step/scale), for
    integers k. The epsilon of an entry is exactly D/scale, where D is the distance of the rounded
    ends of the range. The mean output is the rounded input (see ``GridNoise``).

    Source: Ghosh, Roughgarden and Sundararajan 2009; sampled as in Canonne, Kamath and Steinke
    2020, Algorithm 2.
    """

    # This two-sided geometric distribution avoids the leaks of doubles (Mironov 2012): the noise is
    # an integer, drawn by comparing integers, and its range has no end that depends on the input.

    scale: PositiveFloat

    def __post_init__(self) -> None:
        GridNoise.__post_init__(self)
        self._check_noise("scale", self.scale, 2.0**-9, 2.0**40)

    @classmethod
    def calibrate(cls, epsilon: float, *, low: float, high: float, step: float = 1.0) -> Self:
        """Creates the mechanism with the smallest scale whose entries have at most this epsilon.

        epsilon: upper limit of the epsilon of one entry, in [1e-9, 700].
        low, high: ends of the range of an entry.
        step: step of the grid.

        Raises InputError for another epsilon.
        """
        check_epsilon_range(epsilon)
        width = cls(low=low, high=high, step=step, scale=step).sensitivity_steps
        scale = round_up(width * Fraction(step) / Fraction(epsilon))
        return cls(low=low, high=high, step=step, scale=scale)

    @property
    def epsilon(self) -> float:
        """Exact epsilon of one entry: the distance of the rounded ends of the range, over scale."""
        return self.sensitivity_steps * self.step / self.scale

    def delta(self, epsilon: float) -> float:
        """Returns the exact delta at ``epsilon``.

        Let P and Q be the output distributions for the two ends of the range. The delta is the sum
        of P - e^epsilon Q over the outputs with P/Q above e^epsilon.
        """
        # All outputs up to the first end have the ratio P/Q = e^(self.epsilon). Beyond that end,
        # the privacy loss of each next output is 2 step/scale smaller than that of the previous
        # output. Pairs of inputs with a smaller distance have smaller deltas, because they shift
        # the distribution by less.
        rate = self.step / self.scale
        outer = -math.expm1(min(epsilon - self.epsilon, 0.0))
        inner = max(0, math.ceil((self.sensitivity_steps - epsilon / rate) / 2.0) - 1)
        rest = epsilon - (self.sensitivity_steps - inner - 1) * rate
        gained = math.expm1(-inner * rate) * math.expm1(min(rest, 0.0)) * math.exp(-rate)
        return (outer + gained) / (1.0 + math.exp(-rate))

    def worst_case(self) -> WorstCase:
        """Returns inputs and outputs that attain the largest privacy loss.

        The inputs are the two ends of the range, and the outputs are the rounded ends. Outputs
        beyond the ends have the same privacy loss.
        """
        ends = np.array([self.low, self.high])
        return WorstCase(inputs=ends, outputs=np.rint(ends / self.step) * self.step)

    def _draw_noise(self, rng: np.random.Generator, size: int) -> NDArray[np.int64]:
        return draw_laplace(Fraction(self.scale) / Fraction(self.step), rng, size)

    def _log_mass(self, steps: NDArray[np.float64]) -> NDArray[np.float64]:
        rate = self.step / self.scale
        return np.asarray(math.log(math.tanh(rate / 2.0)) - np.abs(steps) * rate)
