"""Laplace noise on every entry."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accountants.errors import InputError
from targets.mechanisms.base import Critical, Domain

if TYPE_CHECKING:
    from dp_accounting import DpEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class Laplace:
    """Noise of scale b on an entry in [low, high]: epsilon = (high - low)/b, and exactly so.

    Elementwise over arrays of any shape: every entry is an input of its own. The law is the ideal
    one over the reals; outputs are doubles, whose low-order bits can say more than the law does
    (Mironov 2012), which no bound here covers.
    Source: Dwork, McSherry, Nissim and Smith 2006.
    """

    scale: float
    low: float
    high: float

    def __post_init__(self) -> None:
        if not 0 < self.scale < math.inf:
            raise InputError(f"Expected scale > 0, got scale={self.scale!r}. Give a finite number.")
        if not -math.inf < self.low < self.high < math.inf:
            raise InputError(
                f"Expected finite low < high, got low={self.low!r}, high={self.high!r}. "
                "Clip the values first."
            )

    @property
    def epsilon(self) -> float:
        """The exact epsilon of one entry."""
        return (self.high - self.low) / self.scale

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
        return values + rng.laplace(0.0, self.scale, values.shape)

    def log_prob(self, output: ArrayLike, value: ArrayLike) -> NDArray[np.float64]:
        """Log-density of ``output`` given ``value``, broadcast."""
        distance = np.abs(np.asarray(output, dtype=np.float64) - self.domain.check(value))
        return np.asarray(-distance / self.scale - math.log(2.0 * self.scale))

    def critical(self) -> Critical:
        """The two ends, as inputs and as outputs: beyond them the ratio stays the same."""
        ends = np.array([self.low, self.high])
        return Critical(inputs=ends, outputs=ends)

    def divergence(self, epsilon: float) -> float:
        """1 - e^((eps - epsilon of the entry)/2), for the two ends and exactly so."""
        return -math.expm1(min(epsilon - self.epsilon, 0.0) / 2.0)

    def event(self) -> DpEvent:
        """Laplace noise at sensitivity high - low."""
        from dp_accounting import LaplaceDpEvent

        return LaplaceDpEvent(self.scale / (self.high - self.low))
