"""Mechanism of fairhealth 0.1.1: noise on the updates of clients."""

from __future__ import annotations

import math

import numpy as np

from benchmarks.wild.package import Package
from fedrec_auditor.accountants.losses.divergences import find_gaussian_epsilon

PACKAGE = Package.from_module(__name__)
PRIVACY = PACKAGE.load("fairhealth.federated.privacy", "fairhealth", "fairhealth.federated")
EPSILON, DELTA = 10.0, 1e-5


def ten() -> float:
    """The standard deviation of the package's noise at epsilon 10."""
    np.random.seed(0)  # noqa: NPY002
    return float(PRIVACY.add_gaussian_noise(np.zeros(1_000_000), EPSILON).std())


def derive_epsilons() -> dict[str, float]:
    """Exact epsilon by mechanism, derived from the noise."""
    return {"ten": find_gaussian_epsilon(DELTA, EPSILON / math.sqrt(2.0 * math.log(1.25 / DELTA)))}
