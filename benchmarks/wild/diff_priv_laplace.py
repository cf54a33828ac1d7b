"""Mechanisms of diff-priv-laplace-python 1.0.5: statistics of a list with Laplace noise."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from benchmarks.wild import draw_in_batch
from benchmarks.wild.package import Package

PACKAGE = Package.from_module(__name__)
STATISTICS = PACKAGE.load("diffpriv_laplace.statistics")
LAPLACE = PACKAGE.load("diffpriv_laplace.laplace_mechanism")
EPSILON = 1.0
LOW, HIGH = 20.0, 100.0
"""Smallest and largest value in the data of the median."""


@draw_in_batch()
def median(x: int, size: int) -> NDArray[np.float64]:
    """Noisy medians of ``LOW``, ``HIGH`` and a third value, ``LOW`` (x = 0) or ``HIGH`` (x = 1)."""
    values, of = np.array([LOW, (LOW, HIGH)[x], HIGH]), STATISTICS.DiffPrivStatistics
    return np.array([of.median(values, EPSILON) for _ in range(size)])


@draw_in_batch()
def mean(x: int, size: int) -> NDArray[np.float64]:
    """Noisy means of ten values: nine are ``LOW``, one is ``LOW`` + x."""
    values, of = np.array([LOW] * 9 + [LOW + x]), STATISTICS.DiffPrivStatistics
    return np.array([of.mean(values, EPSILON) for _ in range(size)])


@draw_in_batch()
def mean_in_bounds(x: int, size: int) -> NDArray[np.float64]:
    """Noisy means of two values in [0, 1] with mean x / 2, by the method that takes bounds."""
    draw = LAPLACE.DiffPrivLaplaceMechanism.anonymize_mean_with_budget
    return np.array([draw(x / 2.0, 0.0, 1.0, 2, EPSILON) for _ in range(size)])


@draw_in_batch()
def count(x: int, size: int) -> NDArray[np.float64]:
    """Noisy numbers of true values among true and x."""
    values, of = np.array([True, bool(x)]), STATISTICS.DiffPrivStatistics
    return np.array([of.count(values, EPSILON, postprocess=False) for _ in range(size)])


def derive_epsilons() -> dict[str, float]:
    """Exact epsilon by mechanism: the change of the median divided by the noise scale."""
    return {"median": (HIGH - LOW) * EPSILON}
