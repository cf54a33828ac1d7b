"""Mechanisms of synthpriv 0.2.1: synthetic tables from noisy histograms."""

from __future__ import annotations

import logging

import numpy as np
from scipy import stats

from benchmarks.wild.package import Package

PACKAGE = Package.from_module(__name__)
BLANK = [f"synthpriv{name}" for name in ("", ".core", ".dp", ".privacy")]
ENCODER = PACKAGE.load("synthpriv.dp.encoder", *BLANK)
COPULA = PACKAGE.load("synthpriv.dp.copula")
MECHANISMS = PACKAGE.load("synthpriv.privacy.mechanisms")
HISTOGRAM = PACKAGE.load("synthpriv.privacy.dpecdf")
logging.getLogger("synthpriv.dp").setLevel(logging.WARNING)  # it logs each fit
EPSILON = 1.0
LOW, HIGH = 0.25, 0.75
"""Centres of two bins."""


def encoder(x: int, rng: np.random.Generator) -> float:
    """The noisy share of the lower bin, which has nine values; the upper has x."""
    import pandas as pd

    frame = pd.DataFrame({"v": [LOW] * 9 + [HIGH] * x})
    fitted = ENCODER.ModeEncoder(
        numeric="uniform", dp_ecdf_epsilon=EPSILON, ecdf_bins=2, ecdf_bounds=(0, 1)
    ).fit(frame)
    return float(fitted.blocks[0]["ecdf"]._cdf[1])


def copula(x: int, rng: np.random.Generator) -> float:
    """A synthetic value from a table with five values in the lower bin and 5 + x in the upper."""
    import pandas as pd

    frame = pd.DataFrame({"v": [LOW] * 5 + [HIGH] * (5 + x)})
    privacy = MECHANISMS.DPSGD(epsilon=EPSILON)
    model = COPULA.DPCopulaGenerator(privacy, bins=2, bounds={"v": (0, 1)}).fit(frame)
    return float(model.sample(1)["v"].iloc[0])


def histogram(x: int, rng: np.random.Generator) -> float:
    """The noisy share of the lower bin, which has two values; the upper has 1 + x.

    Noise is from our generator.
    """
    values = np.array([LOW] * 2 + [HIGH] * (1 + x))
    fitted = HISTOGRAM.DPEcdf(EPSILON, bins=2, bounds=(0, 1)).fit(values, rng=rng)
    return float(fitted._cdf[1])


def derive_epsilons() -> dict[str, float]:
    """Exact epsilon by mechanism, from the probability that the upper noisy count is below 0."""
    below = stats.laplace.logcdf([-1.0, -2.0], scale=1.0 / EPSILON)
    return {"histogram": float(below[0] - below[1])}
