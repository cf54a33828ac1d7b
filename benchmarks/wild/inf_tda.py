"""Mechanism of inf-tda 0.1: hierarchical counts of users' tuples."""

from __future__ import annotations

import math

from benchmarks.wild.package import Package
from fedrec_auditor.accountants.losses.divergences import find_gaussian_epsilon

INSTALLED = Package.of(__name__)
MECHANISM = INSTALLED.load("InfTDA.mechanism", "InfTDA")
BUDGETS = INSTALLED.load("InfTDA.differential_privacy", "InfTDA")
DELTA, TUPLES, LEVELS = 1e-6, 25, 2


def alike() -> float:
    """The standard deviation of the noise on the first of two levels."""
    budget = BUDGETS.get_rho_from_budget((1.0, DELTA)) / LEVELS
    sensitivity = MECHANISM.get_sensitivity(TUPLES, "bounded", False)
    return float(sensitivity / math.sqrt(2.0 * budget))


def second_routes() -> dict[str, float]:
    """Exact epsilon by mechanism, from the noise, if all tuples of a user change together."""
    return {"alike": find_gaussian_epsilon(DELTA, math.sqrt(2.0) * TUPLES / 53.499800619763)}
