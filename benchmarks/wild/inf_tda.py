"""Mechanism of inf-tda 0.1: hierarchical counts of users' tuples."""

from __future__ import annotations

import math

from benchmarks.wild.package import Package
from fedrec_auditor.accountants.losses.divergences import find_gaussian_epsilon

PACKAGE = Package.from_module(__name__)
MECHANISM = PACKAGE.load("InfTDA.mechanism", "InfTDA")
BUDGETS = PACKAGE.load("InfTDA.differential_privacy", "InfTDA")
DELTA, TUPLES, LEVELS = 1e-6, 25, 2


def alike() -> float:
    """The standard deviation of the noise on the first of two levels."""
    budget = BUDGETS.get_rho_from_budget((1.0, DELTA)) / LEVELS
    sensitivity = MECHANISM.get_sensitivity(TUPLES, "bounded", False)
    return float(sensitivity / math.sqrt(2.0 * budget))


def derive_epsilons() -> dict[str, float]:
    """Exact epsilon by mechanism, from the noise, if all tuples of a user change together."""
    return {"alike": find_gaussian_epsilon(DELTA, math.sqrt(2.0) * TUPLES / 53.499800619763)}
