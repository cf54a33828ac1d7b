"""Base classes of mechanisms that add independent noise to a function of the input."""

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


class AdditiveNoise(Checked, ABC):
    """Base class of mechanisms that output ``noiseless(value)`` plus independent noise.

    ``noise_scale`` is the scale of the noise. The probabilities are those of noise over the real
    numbers. The actual outputs are doubles, whose low-order bits can reveal more about the input
    (Mironov 2012). No bound of this package covers that leak.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def domain(self) -> Domain:
        """Set of inputs that the mechanism accepts."""

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Shape of one output; by default the shape of an input."""
        return self.domain.shape

    @property
    @abstractmethod
    def noise_scale(self) -> float | NDArray[np.float64]:
        """Scale of the noise; an array broadcasts to ``output_shape``."""

    def noiseless(self, value: NDArray[Any]) -> NDArray[Any]:
        """Returns the output without noise, shape (*batch, *output_shape); by default the input."""
        return value

    @abstractmethod
    def _draw(self, rng: Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
        """Draws noise of scale 1."""

    @abstractmethod
    def _log_density(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns the log-density of noise of scale 1."""

    def randomize(self, value: ArrayLike, rng: Generator, size: Size = None) -> NDArray[Any]:
        """Draws ``noiseless(value)`` plus noise, float64 of shape (*size, *output_shape)."""
        spread = self.domain.expand_batch(value, size)
        batch = spread.shape[: spread.ndim - len(self.domain.shape)]
        noise = self._draw(rng, (*batch, *self.output_shape))
        return np.asarray(noise * self.noise_scale + self.noiseless(np.asarray(value)))

    def log_prob(self, output: ArrayLike, value: ArrayLike) -> NDArray[np.float64]:
        """Returns the log-density of ``output`` given ``value``; arguments broadcast."""
        center = self.noiseless(self.domain.check(value))
        z = (np.asarray(output, dtype=np.float64) - center) / self.noise_scale
        each = self._log_density(z) - np.log(self.noise_scale)
        return np.asarray(each.sum(axis=tuple(range(-len(self.output_shape), 0))))


class LaplaceNoise(AdditiveNoise):
    """Base class for Laplace noise, whose density at scale 1 is e^(-|z|)/2."""

    __slots__ = ()

    def _draw(self, rng: Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
        return rng.laplace(size=shape)

    def _log_density(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(-np.abs(z) - math.log(2.0))


class RealVectorInput:
    """Base class of mechanisms whose input is any real vector, which the mechanism clips.

    dimension: number of entries of the vector.
    """

    __slots__ = ()

    dimension: int

    @property
    def domain(self) -> Domain:
        """All real vectors of shape (dimension,)."""
        return Domain(low=-math.inf, high=math.inf, shape=(self.dimension,))


class GaussianCurve(ABC):
    """Base class of mechanisms whose worst pair of inputs is like N(0, 1) against N(mu, 1).

    The worst pair are the two inputs that are easiest to distinguish; mu is the sensitivity in
    standard deviations. No epsilon holds at delta 0.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def mu(self) -> float:
        """Sensitivity: largest distance of two inputs' mean outputs, in standard deviations of the
        noise.
        """

    def worst_case(self) -> WorstCase | None:
        """Returns None, because the log-ratio of one output's densities under two inputs has no
        bound.
        """
        return None

    def delta(self, epsilon: float) -> float:
        """Returns the exact delta at ``epsilon`` for the two inputs that are easiest to
        distinguish.

        The value is Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu), with the sensitivity mu in
        standard deviations and the normal distribution function Phi.
        """
        return gaussian_divergence(self.mu, epsilon)

    def event(self) -> dp.DpEvent:
        """Returns the accounting event of Gaussian noise with the noise multiplier 1/mu.

        mu is the sensitivity in standard deviations of the noise.
        """
        return dp.GaussianDpEvent(1.0 / self.mu)


class NormalNoise(GaussianCurve, AdditiveNoise):
    """Base class for Gaussian noise; its scale is the standard deviation ``sigma``.

    The center of an input is its output without noise. Two inputs can be distinguished only along
    the line through their centers, because the noise across this line has the same distribution
    under both inputs. ``mu`` is therefore the largest distance of two centers in standard
    deviations.
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
    """Scales vectors (along the last axis) with an L2 norm above ``bound`` down to this norm."""
    # divided by the largest entry or by the bound, so that no square overflows
    unit = np.maximum(np.abs(vectors).max(axis=-1, keepdims=True), bound)
    norm = np.linalg.norm(vectors / unit, axis=-1, keepdims=True)
    return np.asarray(vectors * (bound / unit / np.maximum(norm, bound / unit)))


def check_mu(mu: float, noise: str) -> None:
    """Raises InputError if ``mu`` is not in [1e-100, 1e100].

    mu: sensitivity of a mechanism in standard deviations of the noise.
    noise: name of the setting that determines the noise, for the message.

    Accountants need the square of mu as a normal double. At mu = 0 the output does not depend on
    the input.
    """
    if not 1e-100 <= mu <= 1e100:
        raise InputError(
            f"Expected {noise} between 1e-100 and 1e+100 sensitivities, got a sensitivity of "
            f"{mu!r} standard deviations of the noise. Change the noise or the sensitivity."
        )


def check_range(low: float, high: float) -> None:
    """Raises InputError unless ``low`` < ``high`` and both ends and the width are finite."""
    if not (-math.inf < low < high < math.inf and high - low < math.inf):
        raise InputError(
            f"Expected finite low < high, got low={low!r}, high={high!r}. Clip the values first."
        )
