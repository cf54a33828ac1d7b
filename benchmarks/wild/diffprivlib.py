"""The two mechanisms of diffprivlib 0.6.6 whose claims are refuted.

OTHER_MECHANISMS.md has results of all its mechanisms.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from benchmarks.others import diffprivlib as others
from benchmarks.wild.package import Package
from fedrec_auditor.accountants.losses.divergences import find_gaussian_epsilon

PACKAGE = Package.from_module(__name__)
PACKAGE.load("diffprivlib.mechanisms", "diffprivlib.models")
DELTA, MU = 1e-9, 1.0 / 0.3442083317691189
"""Delta, and sensitivity divided by the noise of ``GaussianAnalytic``, at epsilon 20."""


def exponential(x: str, rng: np.random.Generator, size: int) -> NDArray[np.str_]:
    """Outputs of ``ExponentialCategorical`` on categories that are balanced at epsilon / 2 only."""
    (case,) = (case for case in others.list_cases() if "balanced" in case.setting)
    return np.asarray(case.call(x, rng, size))


def derive_epsilons() -> dict[str, float]:
    """Exact epsilon by mechanism, from the noise and from normalisers."""
    balanced = math.log(100.0) + math.log(2.65 / 2.01)
    return {"gaussiananalytic": find_gaussian_epsilon(DELTA, MU), "exponential": balanced}
