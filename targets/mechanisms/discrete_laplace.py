"""Laplace noise on a grid, where doubles tell no more than the distribution does."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Self

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.targets.mechanisms.base import WorstCase
from fedrec_auditor.targets.mechanisms.parts.entries import PureEpsilon
from fedrec_auditor.targets.mechanisms.parts.exact_draws import discrete_laplace
from fedrec_auditor.targets.mechanisms.parts.grid import OnGrid
from fedrec_auditor.targets.mechanisms.parts.rates import at_least, check_rate_epsilon
from fedrec_auditor.targets.settings import AboveZero


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscreteLaplace(PureEpsilon, OnGrid):
    """P(k steps) = tanh(step/(2 scale)) e^(-|k| step/scale): epsilon = width step/scale, exactly.

    The two-sided geometric distribution, the answer to the leaks of doubles (Mironov 2012): the
    noise is a whole number, drawn by comparing whole numbers, and its range has no end that depends
    on the input. The input is rounded to the grid; see ``OnGrid``. Unbiased about the rounded
    input. Source: Ghosh, Roughgarden and Sundararajan 2009; sampled as in Canonne, Kamath and
    Steinke 2020, Algorithm 2.
    """

    scale: AboveZero

    def __post_init__(self) -> None:
        OnGrid.__post_init__(self)
        self._check_noise("scale", self.scale, 2.0**-9, 2.0**40)

    @classmethod
    def calibrated(cls, epsilon: float, *, low: float, high: float, step: float = 1.0) -> Self:
        """The least scale, as a double, of which ``epsilon`` is the epsilon."""
        check_rate_epsilon(epsilon)
        width = cls(low=low, high=high, step=step, scale=step).width
        scale = at_least(width * Fraction(step) / Fraction(epsilon))
        return cls(low=low, high=high, step=step, scale=scale)

    @property
    def epsilon(self) -> float:
        """The exact epsilon of one entry."""
        return self.width * self.step / self.scale

    def delta(self, epsilon: float) -> float:
        """Sum of P - e^epsilon Q over the outputs of larger ratio, for the two ends and exactly so.

        The outputs up to the one end all have the ratio e^eps; the ``inner`` ones beyond lose two
        steps of it each. Other pairs are closer, and their divergences smaller, since the
        distribution's cumulative function is moved by less.
        """
        rate = self.step / self.scale
        outer = -math.expm1(min(epsilon - self.epsilon, 0.0))
        inner = max(0, math.ceil((self.width - epsilon / rate) / 2.0) - 1)
        rest = epsilon - (self.width - inner - 1) * rate
        gained = math.expm1(-inner * rate) * math.expm1(min(rest, 0.0)) * math.exp(-rate)
        return (outer + gained) / (1.0 + math.exp(-rate))

    def worst_case(self) -> WorstCase:
        """The two ends, as inputs and as outputs: beyond them the ratio stays the same."""
        ends = np.array([self.low, self.high])
        return WorstCase(inputs=ends, outputs=np.rint(ends / self.step) * self.step)

    def _noise(self, rng: np.random.Generator, size: int) -> NDArray[np.int64]:
        return discrete_laplace(Fraction(self.scale) / Fraction(self.step), rng, size)

    def _log_mass(self, steps: NDArray[np.float64]) -> NDArray[np.float64]:
        rate = self.step / self.scale
        return np.asarray(math.log(math.tanh(rate / 2.0)) - np.abs(steps) * rate)
