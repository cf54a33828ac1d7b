"""Base classes for independent noise added to a number that depends on the value."""

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
    """Mechanism that adds independent noise of scale ``noise_scale`` to ``center(value)``.

    The distribution is the ideal one over the reals. Outputs are doubles, whose low-order bits can
    reveal more than the distribution does (Mironov 2012); no bound here covers that leak.
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
        """Number to which noise is added, by default the input: (*batch, *output_shape)."""
        return value

    @abstractmethod
    def _draw(self, rng: Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
        """Noise of scale 1."""

    @abstractmethod
    def _log_density(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """Log-density of noise of scale 1."""

    def randomize(self, value: ArrayLike, rng: Generator, size: Size = None) -> NDArray[Any]:
        """Adds noise; float64 of shape (*size, *output_shape)."""
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
    """A mechanism whose input is any real vector, (``dimension``,), which it clips."""

    __slots__ = ()

    dimension: int

    @property
    def domain(self) -> Domain:
        """All real vectors (dimension,)."""
        return Domain(low=-math.inf, high=math.inf, shape=(self.dimension,))


class NormalCurve(ABC):
    """Privacy curve of a worst pair like N(0, 1) and N(mu, 1): no epsilon holds at delta 0."""

    __slots__ = ()

    @property
    @abstractmethod
    def mu(self) -> float:
        """Largest distance between the distributions of two inputs, in standard deviations."""

    def worst_case(self) -> WorstCase | None:
        """None, because the log-ratio has no bound."""
        return None

    def delta(self, epsilon: float) -> float:
        """Exact delta of the worst pair, Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu)."""
        return gaussian_divergence(self.mu, epsilon)

    def event(self) -> dp.DpEvent:
        """Gaussian noise of multiplier 1/mu."""
        return dp.GaussianDpEvent(1.0 / self.mu)


class Normal(NormalCurve, Additive):
    """Normal noise, whose scale is its standard deviation.

    Two inputs differ only along the line through their centers: the noise across it has the same
    distribution under both, and mu is the distance of the centers in units of the noise.
    """

    __slots__ = ()

    sigma: float

    @property
    def noise_scale(self) -> float | NDArray[np.float64]:
        """Standard deviation of the noise, by default ``sigma``."""
        return self.sigma

    def _draw(self, rng: Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
        return rng.standard_normal(shape)

    def _log_density(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(-0.5 * z**2 - LOG_ROOT_TAU)


def clip_norm(vectors: NDArray[Any], bound: float) -> NDArray[np.float64]:
    """Vectors along the last axis, scaled down to an L2 norm of at most ``bound``.

    All entries are first divided by the largest entry or the bound, so that no square overflows.
    """
    unit = np.maximum(np.abs(vectors).max(axis=-1, keepdims=True), bound)
    norm = np.linalg.norm(vectors / unit, axis=-1, keepdims=True)
    return np.asarray(vectors * (bound / unit / np.maximum(norm, bound / unit)))


def check_mu(mu: float, noise: str) -> None:
    """Raises InputError if the square of ``mu``, which accountants need, is not a normal double.

    At mu = 0 the output does not depend on the input.
    """
    if not 1e-100 <= mu <= 1e100:
        raise InputError(
            f"Expected {noise} of 1e-100 to 1e+100 sensitivities, got a sensitivity of {mu!r} in "
            "units of the noise. Change the noise or the sensitivity."
        )


def check_range(low: float, high: float) -> None:
    """Raises InputError for a range that is empty or infinite, or has an infinite width."""
    if not (-math.inf < low < high < math.inf and high - low < math.inf):
        raise InputError(
            f"Expected finite low < high, got low={low!r}, high={high!r}. Clip the values first."
        )
