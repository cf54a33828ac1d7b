"""Accountants of autodp 0.2.3.1, whose epsilons are checked."""

from __future__ import annotations

from typing import Any

from benchmarks.wild.package import Package

PACKAGE = Package.from_module(__name__)
ZOO = PACKAGE.load("autodp.mechanism_zoo")
TRANSFORMERS = PACKAGE.load("autodp.transformer_zoo")


def gaussian(gaussian: float, delta: float) -> float:
    """Epsilon by autodp of Gaussian noise."""
    return float(ZOO.ExactGaussianMechanism(sigma=gaussian).get_approxDP(delta))


def laplace(laplace: float, delta: float) -> float:
    """Epsilon by autodp of Laplace noise."""
    return float(ZOO.LaplaceMechanism(b=laplace).get_approxDP(delta))


def sampled(gaussian: float, rate: float, rounds: int, delta: float) -> float:
    """Epsilon by autodp of Poisson-sampled Gaussian noise over several rounds."""
    noise: Any = ZOO.GaussianMechanism(sigma=gaussian)
    noise.neighboring = "add_remove"
    drawn = TRANSFORMERS.AmplificationBySampling(PoissonSampling=True)(noise, rate)
    composed = TRANSFORMERS.Composition()([drawn], [rounds])
    return float(composed.get_approxDP(delta))
