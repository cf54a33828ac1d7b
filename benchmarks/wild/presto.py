"""Mechanisms that ornl-presto 0.1.29 offers and recommends."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from benchmarks.wild import draw_in_batch, draw_one_by_one, exact
from benchmarks.wild.package import Package
from fedrec_auditor.accountants.losses.divergences import find_gaussian_epsilon

PACKAGE = Package.from_module(__name__)
EPSILON, DELTA, MAX_VALUE = 1.0, 1e-5, 3
SIGMA = math.sqrt(math.log(1.25 / DELTA)) / EPSILON
"""Noise of ``applyDPGaussian`` at sensitivity 1; at sensitivity s, it is larger by sqrt(s)."""
SENSITIVITY = 100.0


MECHANISMS = PACKAGE.load("ornl_presto.privacy_mechanisms", "ornl_presto")


def _seed_torch(number: int) -> None:
    import torch

    torch.manual_seed(number)


@draw_in_batch()
def gaussian(x: float, size: int) -> NDArray[np.float64]:
    """x with noise of ``applyDPGaussian`` at ``SENSITIVITY``."""
    data = np.full(size, float(x))
    return np.asarray(MECHANISMS.applyDPGaussian(data, SENSITIVITY, DELTA, EPSILON))


@draw_in_batch()
def laplace(x: float, size: int) -> NDArray[np.float64]:
    """x with noise of ``applyDPLaplace`` at sensitivity 1."""
    return np.asarray(MECHANISMS.applyDPLaplace(np.full(size, float(x)), 1.0, EPSILON))


@draw_in_batch()
def exponential(x: float, size: int) -> NDArray[np.float64]:
    """x with noise of ``applyDPExponential`` at sensitivity 1."""
    return np.asarray(MECHANISMS.applyDPExponential(np.full(size, float(x)), 1.0, EPSILON))


@draw_in_batch(_seed_torch)
def response(x: int, size: int) -> NDArray[np.int64]:
    """Reports of ``size`` users with value x, in a data set with one user of the largest value."""
    data = np.append(np.full(size, x), MAX_VALUE)
    return np.asarray(MECHANISMS.hadamard_response(data, EPSILON).numpy())[:-1]


@draw_one_by_one()
def threshold(x: float) -> list[float]:
    """The returned values for the records 0 and x."""
    return list(MECHANISMS.applySVTAboveThreshold_full([0.0, float(x)], EPSILON))


@draw_one_by_one(_seed_torch)
def mean_sketch(x: float) -> float:
    """The noisy mean of the records 0 and x, from a sketch."""

    import torch

    return float(MECHANISMS.count_mean_sketch(torch.tensor([0.0, float(x)]), EPSILON)[0])


def make_response(x: int, k: int, epsilon: float) -> exact.Distribution:
    """The distribution of reports of x among k values by ``hadamard_response``."""
    kept = math.exp(epsilon) / (math.exp(epsilon) + 1.0)
    return exact.mix([(kept, {x: 1.0}), (1.0 - kept, exact.make_uniform(range(k)))])


def derive_epsilons() -> dict[str, float]:
    """Exact epsilon by mechanism, from listed outputs and from the noise."""
    values = range(MAX_VALUE + 1)
    return {
        "applydpgaussian": find_gaussian_epsilon(DELTA, 1.0 / SIGMA),
        "gaussian": find_gaussian_epsilon(DELTA, math.sqrt(SENSITIVITY) / SIGMA),
        "response": exact.find_epsilon(make_response(x, len(values), EPSILON) for x in values),
    }
