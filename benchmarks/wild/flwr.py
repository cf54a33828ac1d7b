"""Mechanisms of flwr 1.41.0: noise that clients add to their updates."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.wild import draw_one_by_one
from benchmarks.wild.package import Package
from fedrec_auditor.accountants.losses.divergences import find_gaussian_epsilon

PACKAGE = Package.from_module(__name__)
PRIVACY = PACKAGE.load("flwr.supercore.differential_privacy", "flwr", "flwr.supercore.logger")
PARAMETERS = PACKAGE.load("flwr.compat.common.parameter")
DELTA = 1e-5


def _add_noise(update: list[NDArray[np.float64]], sensitivity: float, epsilon: float) -> Any:
    """The first array of the update with the package's own noise."""
    given = PARAMETERS.ndarrays_to_parameters(update)
    noised = PRIVACY.add_localdp_gaussian_noise_to_params(given, sensitivity, epsilon, DELTA)
    return PARAMETERS.parameters_to_ndarrays(noised)[0]


def _compute_deviation(epsilon: float) -> float:
    """The standard deviation of the noise of ``LocalDpMod`` for a sensitivity of 1."""
    return math.sqrt(2.0 * math.log(1.25 / DELTA)) / epsilon


@draw_one_by_one()
def diverged(x: float) -> float:
    """The noisy second weight of an update whose first is NaN, after clipping."""
    update = [np.array([np.nan, 1000.0 * x])]
    PRIVACY.compute_clip_model_update(update, [np.zeros(2)], 1.0)
    return float(_add_noise(update, 1.0, 1.0)[1])


@draw_one_by_one()
def clipped(x: float) -> float:
    """The noisy weight of a finite update; two clipped updates differ by up to 2."""
    update = [np.array([1000.0 * (2.0 * x - 1.0)])]
    PRIVACY.compute_clip_model_update(update, [np.zeros(1)], 1.0)
    return float(_add_noise(update, 2.0, 1.0)[0])


def local() -> float:
    """The standard deviation of the package's noise at epsilon 20."""
    np.random.seed(0)  # noqa: NPY002
    return float(_add_noise([np.zeros(1_000_000)], 1.0, 20.0).std())


def derive_epsilons() -> dict[str, float]:
    """Exact epsilon by mechanism, derived from the noise."""
    return {
        "diverged": find_gaussian_epsilon(DELTA, 1000.0 / _compute_deviation(1.0)),
        "local": find_gaussian_epsilon(DELTA, 1.0 / _compute_deviation(20.0)),
        "clipped": find_gaussian_epsilon(DELTA, 1.0 / _compute_deviation(1.0)),
    }
