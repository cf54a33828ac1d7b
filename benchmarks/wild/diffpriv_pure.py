"""Mechanisms of diffpriv-pure 0.1.0: noise from Python's standard library."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import stats

from benchmarks.wild import exact, one_by_one
from benchmarks.wild.package import Package
from fedrec_auditor.accountants.losses.divergences import find_gaussian_epsilon
from fedrec_auditor.accountants.losses.responses import compose_pure_epsilons
from fedrec_auditor.auditor.verification import Density

INSTALLED = Package.of(__name__)
PACKAGE = INSTALLED.load("diffpriv_pure")
EPSILON = 1.0
USES, EACH = 100, 1e-5
"""Number of composed responses of epsilon 1, and the delta of each."""
TINY = 1e-15
"""An epsilon at which ``geometric_noise`` gives up."""
LARGE, DELTA = 10.0, 1e-5
SIGMA = math.sqrt(2.0 * math.log(1.25 / DELTA)) / LARGE
"""Result of ``gaussian_sigma(1, LARGE, DELTA)``."""
COMPOSED = math.sqrt(2.0 * USES * math.log(1.0 / EACH))
"""Result of ``advanced_composition(USES, 1, EACH)``, at delta USES * EACH."""
KEPT = math.e / (1.0 + math.e)


@one_by_one()
def count(x: int) -> int:
    return int(PACKAGE.private_count(int(x), EPSILON))


@one_by_one()
def tiny_count(x: int) -> int:
    return int(PACKAGE.private_count(int(x), TINY))


@one_by_one()
def total(x: float) -> float:
    return float(PACKAGE.private_sum([float(x)], (0.0, 1.0), EPSILON))


def ones(x: int, rng: np.random.Generator, size: int) -> Any:
    """The number of 1s among ``USES`` randomized responses of epsilon 1 to the bit x."""
    return rng.binomial(USES, KEPT if x else 1.0 - KEPT, size)


def log_ones(output: Any, x: int) -> Any:
    return stats.binom.logpmf(output, USES, KEPT if x else 1.0 - KEPT)


composed = Density(sample=ones, log_prob=log_ones)


def count_distribution(x: int, epsilon: float, most: int = 60) -> exact.Distribution:
    """The distribution of x plus a geometric number from 0 on.

    Outputs from ``most`` on are one output, "more".
    """
    ratio = math.exp(-epsilon)
    law = {y: (1.0 - ratio) * ratio ** (y - x) for y in range(x, most)}
    return law | {"more": ratio ** (most - x)}


def second_routes() -> dict[str, float]:
    """Exact epsilon by mechanism, from listed outputs or from the noise."""
    return {
        "count": exact.epsilon(count_distribution(x, EPSILON) for x in (0, 1)),
        "gaussian_sigma": find_gaussian_epsilon(DELTA, 1.0 / SIGMA),
        "composed": compose_pure_epsilons(((1.0, USES),), USES * EACH),
    }
