"""Mechanisms of eeprivacy 0.0.5: sums, means, histograms and quantiles of energy data."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import integrate, stats

from benchmarks.wild import draw_in_batch
from benchmarks.wild.package import Package

PACKAGE = Package.from_module(__name__)
OPERATIONS = PACKAGE.load("eeprivacy.operations")
EPSILON = 1.0
FAR_VALUE = 100.0
"""A value far above the bounds [0, 1]."""
OPTIONS = (0.5, 1.5)
"""Candidate outputs of a quantile, for values 0, 1 and more."""
QUANTILE_DATA, MEDIAN_DATA = [0] * 14 + [1] * 6, [0] * 3 + [1] * 3 + [2] * 4
"""Data for the quantile 0.9, and data for the median."""


def _repeat(operation: Any, size: int, **given: Any) -> NDArray[Any]:
    return np.array([operation.execute(**given, epsilon=EPSILON) for _ in range(size)], float)


@draw_in_batch()
def mean(x: int, size: int) -> NDArray[np.float64]:
    """Noisy means of nine zeros and a value, 0 or (x = 1) far above the bound."""
    operation = OPERATIONS.PrivateClampedMean(lower_bound=0, upper_bound=1)
    return _repeat(operation, size, values=[0.0] * 9 + [FAR_VALUE * x])


@draw_in_batch()
def vector_mean(x: int, size: int) -> NDArray[np.float64]:
    """First minus second coordinate of the noisy mean of the vectors (0, 0) and (x, 0)."""
    operation = OPERATIONS.PrivateVectorClampedMeanLaplace(lower_bound=0, upper_bound=1, k=2, N=2)
    first, second = _repeat(operation, size, vectors=[[0, 0], [x, 0]], delta=0).T
    return np.asarray(np.round(first - second, 9))


@draw_in_batch()
def quantile(x: int, size: int) -> NDArray[np.float64]:
    """The option chosen as the quantile 0.9; for x = 1, one more value is above both options."""
    operation = OPERATIONS.PrivateQuantile(options=list(OPTIONS))
    return _repeat(operation, size, values=np.array(QUANTILE_DATA + [9] * x), quantile=0.9)


@draw_in_batch()
def median(x: int, size: int) -> NDArray[np.float64]:
    """The option chosen as the median; for x = 1, one more value is above both options."""
    operation = OPERATIONS.PrivateQuantile(options=list(OPTIONS))
    return _repeat(operation, size, values=np.array(MEDIAN_DATA + [9] * x), quantile=0.5)


@draw_in_batch()
def mean_within(x: int, size: int) -> NDArray[np.float64]:
    """Noisy means of 0 and x, both within the bounds [0, 1]."""
    operation = OPERATIONS.PrivateClampedMean(lower_bound=0, upper_bound=1)
    return _repeat(operation, size, values=[0.0, float(x)])


@draw_in_batch()
def total(x: int, size: int) -> NDArray[np.float64]:
    """Noisy sums of 0 and a value, 0 or (x = 1) far above the bound."""
    operation = OPERATIONS.PrivateClampedSum(lower_bound=0, upper_bound=1)
    return _repeat(operation, size, values=[0.0, FAR_VALUE * x])


@draw_in_batch()
def histogram(x: int, size: int) -> NDArray[np.float64]:
    """Noisy counts of two bins, of which the second has x values."""
    operation = OPERATIONS.PrivateHistogram(bins=[0, 1, 2])
    return _repeat(operation, size, values=[0.5] + [1.5] * x)


def compute_first_option(values: list[int], share: float) -> float:
    """The probability that the first option has the larger noisy score, by integration.

    ``share`` is the level of the quantile of ``values``.
    """
    first, second = (-abs(sum(v < o for v in values) - len(values) * share) for o in OPTIONS)

    def compute_density(noise: float) -> float:  # of the second's noise, if the first wins
        return float(stats.laplace.pdf(noise) * stats.laplace.sf(noise + second - first))

    ends = (-40.0, *sorted((0.0, first - second)), 40.0)
    parts = pairwise(ends)
    return math.fsum(integrate.quad(compute_density, a, b, epsabs=1e-13)[0] for a, b in parts)


def derive_epsilons() -> dict[str, float]:
    """Exact epsilon by mechanism, from integration or from probabilities at the lower bound."""
    routes = {}
    for key, values, share in (("quantile", QUANTILE_DATA, 0.9), ("median", MEDIAN_DATA, 0.5)):
        without, added = (compute_first_option(v, share) for v in (values, [*values, 9]))
        routes[key] = max(
            abs(math.log(without / added)), abs(math.log((1.0 - without) / (1.0 - added)))
        )
    for key, largest in (("mean", FAR_VALUE), ("mean_within", 1.0)):
        at_zero = stats.laplace.logcdf([0.0, -largest])
        routes[key] = float(at_zero[0] - at_zero[1])
    return routes
