"""Independent noise added to a number that the value decides: what such mechanisms share."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.accountants.events import dp
from fedrec_auditor.accountants.losses.divergences import gaussian_divergence
from fedrec_auditor.targets.mechanisms.base import Domain, Size, WorstCase
from fedrec_auditor.targets.settings import Checked

LOG_ROOT_TAU = 0.5 * math.log(2.0 * math.pi)


class Additive(Checked, ABC):
    """``center(value)`` plus independent noise of scale ``noise_scale`` in every entry.

    The distribution is the ideal one over the reals; outputs are doubles, whose low-order bits can
    say more than the distribution does (Mironov 2012), which no bound here covers.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def domain(self) -> Domain:
        """Inputs for which the distribution is defined."""

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Shape of one output: by default that of an input."""
        return self.domain.shape

    @property
    @abstractmethod
    def noise_scale(self) -> float | NDArray[np.float64]:
        """Scale of the noise, broadcast to ``output_shape``."""

    def center(self, value: NDArray[Any]) -> NDArray[Any]:
        """What the noise is added to, by default the input: (*batch, *output_shape)."""
        return value

    @abstractmethod
    def _draw(self, rng: Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
        """Noise of scale 1."""

    @abstractmethod
    def _log_density(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """Log-density of noise of scale 1."""

    def randomize(self, value: ArrayLike, rng: Generator, size: Size = None) -> NDArray[Any]:
        """Add noise, float64 of shape (*size, *output_shape)."""
        spread = self.domain.spread(value, size)
        batch = spread.shape[: spread.ndim - len(self.domain.shape)]
        noise = self._draw(rng, (*batch, *self.output_shape))
        return np.asarray(noise * self.noise_scale + self.center(np.asarray(value)))

    def log_prob(self, output: ArrayLike, value: ArrayLike) -> NDArray[np.float64]:
        """Log-density of ``output`` given ``value``, broadcast."""
        center = self.center(self.domain.check(value))
        z = (np.asarray(output, dtype=np.float64) - center) / self.noise_scale
        each = self._log_density(z) - np.log(self.noise_scale)
        return np.asarray(each.sum(axis=tuple(range(-len(self.output_shape), 0))))


class Laplacian(Additive):
    """Noise of density e^(-|z|)/2 in units of its scale."""

    __slots__ = ()

    def _draw(self, rng: Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
        return rng.laplace(size=shape)

    def _log_density(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(-np.abs(z) - math.log(2.0))


class RealVector:
    """An input is any real vector, (``dimension``,), which the mechanism clips by itself."""

    __slots__ = ()

    dimension: int

    @property
    def domain(self) -> Domain:
        """Every real vector (dimension,)."""
        return Domain(low=-math.inf, high=math.inf, shape=(self.dimension,))


class NormalCurve(ABC):
    """Worst pair as hard to tell apart as N(0, 1) and N(mu, 1): no epsilon holds at delta 0."""

    __slots__ = ()

    @property
    @abstractmethod
    def mu(self) -> float:
        """Largest distance between the distributions of two inputs, in standard deviations."""

    def worst_case(self) -> WorstCase | None:
        """None: the log-ratio has no bound."""
        return None

    def delta(self, epsilon: float) -> float:
        """Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu), for the worst pair and exactly so."""
        return gaussian_divergence(self.mu, epsilon)

    def event(self) -> dp.DpEvent:
        """Gaussian noise of multiplier 1/mu."""
        return dp.GaussianDpEvent(1.0 / self.mu)


class Normal(NormalCurve, Additive):
    """Normal noise, whose scale is its standard deviation.

    Only the direction in which the centers of two inputs differ tells them apart: the noise across
    it is the same under both, and mu is their distance in units of the noise.
    """

    __slots__ = ()

    sigma: float

    @property
    def noise_scale(self) -> float | NDArray[np.float64]:
        """By default the standard deviation ``sigma``."""
        return self.sigma

    def _draw(self, rng: Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
        return rng.standard_normal(shape)

    def _log_density(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(-0.5 * z**2 - LOG_ROOT_TAU)


def clip_norm(vectors: NDArray[Any], bound: float) -> NDArray[np.float64]:
    """Vectors along the last axis, scaled down to an L2 norm of at most ``bound``.

    Everything is divided by the largest entry or the bound first, so that no square overflows.
    """
    unit = np.maximum(np.abs(vectors).max(axis=-1, keepdims=True), bound)
    norm = np.linalg.norm(vectors / unit, axis=-1, keepdims=True)
    return np.asarray(vectors * (bound / unit / np.maximum(norm, bound / unit)))


def check_mu(mu: float, noise: str) -> None:
    """InputError for a ``mu`` whose square, which accountants take, leaves the doubles.

    At 0 the output does not depend on the input, and there is no noise to speak of.
    """
    if not 1e-100 <= mu <= 1e100:
        raise InputError(
            f"Expected {noise} of 1e-100 to 1e+100 sensitivities, got a sensitivity of {mu!r} in "
            "units of the noise. Change one of the two."
        )


def check_range(low: float, high: float) -> None:
    """InputError for a range that is empty or endless, or whose width is."""
    if not (-math.inf < low < high < math.inf and high - low < math.inf):
        raise InputError(
            f"Expected finite low < high, got low={low!r}, high={high!r}. Clip the values first."
        )
