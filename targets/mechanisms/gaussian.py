"""Gaussian noise on every entry."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_ndtr

from accountants.errors import InputError
from targets.mechanisms.base import Domain

if TYPE_CHECKING:
    from dp_accounting import DpEvent


def gaussian_divergence(mu: float, epsilon: float) -> float:
    """The least delta at ``epsilon`` of unit normal laws ``mu`` apart.

    Balle and Wang 2018, Theorem 8; in logs, so that neither e^eps overflows nor the tails cancel.
    """
    above = float(log_ndtr(mu / 2.0 - epsilon / mu))
    below = epsilon + float(log_ndtr(-mu / 2.0 - epsilon / mu))
    return math.exp(above) * -math.expm1(min(below - above, 0.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Gaussian:
    """Noise N(0, sigma^2) on an entry in [low, high]: no epsilon holds at delta 0.

    Far out the log-ratio grows without bound; at delta > 0 the exact curve is that of
    mu = (high - low)/sigma (Balle and Wang 2018, Theorem 8). Elementwise over arrays of any
    shape: every entry is an input of its own. The law is the ideal one over the reals.
    """

    sigma: float
    low: float
    high: float

    def __post_init__(self) -> None:
        if not 0 < self.sigma < math.inf:
            raise InputError(f"Expected sigma > 0, got sigma={self.sigma!r}. Give a finite number.")
        if not -math.inf < self.low < self.high < math.inf:
            raise InputError(
                f"Expected finite low < high, got low={self.low!r}, high={self.high!r}. "
                "Clip the values first."
            )

    @property
    def domain(self) -> Domain:
        """[low, high]."""
        return Domain(low=self.low, high=self.high)

    @property
    def output_shape(self) -> tuple[int, ...]:
        """One number."""
        return ()

    def randomize(
        self, value: ArrayLike, rng: np.random.Generator, size: tuple[int, ...] | None = None
    ) -> NDArray[Any]:
        """Add noise, float64 of shape ``size``."""
        values = self.domain.spread(value, size)
        return values + rng.normal(0.0, self.sigma, values.shape)

    def log_prob(self, output: ArrayLike, value: ArrayLike) -> NDArray[np.float64]:
        """Log-density of ``output`` given ``value``, broadcast."""
        z = (np.asarray(output, dtype=np.float64) - self.domain.check(value)) / self.sigma
        return np.asarray(-0.5 * z**2 - math.log(self.sigma) - 0.5 * math.log(2.0 * math.pi))

    def critical(self) -> None:
        """None: the log-ratio has no bound."""
        return None

    def divergence(self, epsilon: float) -> float:
        """Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu), for the two ends and exactly so."""
        return gaussian_divergence((self.high - self.low) / self.sigma, epsilon)

    def event(self) -> DpEvent:
        """Gaussian noise at sensitivity high - low."""
        from dp_accounting import GaussianDpEvent

        return GaussianDpEvent(self.sigma / (self.high - self.low))
