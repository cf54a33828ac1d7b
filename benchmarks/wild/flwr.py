"""flwr 1.41.0: noise that clients add to their updates."""

from __future__ import annotations

import math

import numpy as np

from benchmarks.wild import one_by_one
from benchmarks.wild.package import Package
from fedrec_auditor.accountants.losses.gaussian import gaussian_epsilon

INSTALLED = Package.of(__name__)
PRIVACY = INSTALLED.load("flwr.supercore.differential_privacy", "flwr", "flwr.supercore.logger")
DELTA = 1e-5


def _deviation(epsilon: float) -> float:
    """What ``LocalDpMod`` adds for a sensitivity of 1."""
    return math.sqrt(2.0 * math.log(1.25 / DELTA)) / epsilon


@one_by_one()
def diverged(x: float) -> float:
    """The second weight of an update whose first is NaN, clipped and noised as ``LocalDpMod``."""
    update = [np.array([np.nan, 1000.0 * x])]
    PRIVACY.compute_clip_model_update(update, [np.zeros(2)], 1.0)
    PRIVACY.add_gaussian_noise_inplace(update, _deviation(1.0))
    return float(update[0][1])


@one_by_one()
def clipped(x: float) -> float:
    """The same of an update that is finite; two of them are a sensitivity of 2 apart."""
    update = [np.array([1000.0 * (2.0 * x - 1.0)])]
    PRIVACY.compute_clip_model_update(update, [np.zeros(1)], 1.0)
    PRIVACY.add_gaussian_noise_inplace(update, 2.0 * _deviation(1.0))
    return float(update[0][0])


def local() -> float:
    """The deviation of the noise at epsilon 20."""
    np.random.seed(0)  # noqa: NPY002
    update = [np.zeros(1_000_000)]
    PRIVACY.add_gaussian_noise_inplace(update, _deviation(20.0))
    return float(update[0].std())


def second_routes() -> dict[str, float]:
    """From the noise."""
    return {
        "local": gaussian_epsilon(DELTA, 1.0 / _deviation(20.0)),
        "clipped": gaussian_epsilon(DELTA, 1.0 / _deviation(1.0)),
    }
