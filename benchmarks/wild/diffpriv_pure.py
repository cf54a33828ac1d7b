"""Mechanisms of diffpriv-pure 0.1.0: noise from Python's standard library."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import stats

from benchmarks.wild import draw_one_by_one, exact
from benchmarks.wild.package import Package
from fedrec_auditor.accountants.losses.divergences import find_gaussian_epsilon
from fedrec_auditor.accountants.losses.responses import compose_pure_epsilons
from fedrec_auditor.auditor.verification import Density

PACKAGE = Package.from_module(__name__)
MODULE = PACKAGE.load("diffpriv_pure")
EPSILON = 1.0
N_RESPONSES, RESPONSE_DELTA = 100, 1e-5
"""Number of composed responses of epsilon 1, and the delta of each."""
TINY_EPSILON = 1e-15
"""An epsilon at which ``geometric_noise`` returns 0."""
LARGE_EPSILON, DELTA = 10.0, 1e-5
SIGMA = math.sqrt(2.0 * math.log(1.25 / DELTA)) / LARGE_EPSILON
"""Result of ``gaussian_sigma(1, LARGE_EPSILON, DELTA)``."""
COMPOSED_EPSILON = math.sqrt(2.0 * N_RESPONSES * math.log(1.0 / RESPONSE_DELTA))
"""Result of ``advanced_composition(N_RESPONSES, 1, RESPONSE_DELTA)``."""
P_KEEP = math.e / (1.0 + math.e)


@draw_one_by_one()
def count(x: int) -> int:
    """x with the package's noise on counts, at epsilon 1."""
    return int(MODULE.private_count(int(x), EPSILON))


@draw_one_by_one()
def tiny_count(x: int) -> int:
    """x with the package's noise on counts, at ``TINY_EPSILON``."""
    return int(MODULE.private_count(int(x), TINY_EPSILON))


@draw_one_by_one()
def total(x: float) -> float:
    """The noisy sum of one value x in [0, 1]."""
    return float(MODULE.private_sum([float(x)], (0.0, 1.0), EPSILON))


def count_ones(x: int, rng: np.random.Generator, size: int) -> Any:
    """The number of 1s among ``N_RESPONSES`` randomized responses of epsilon 1 to the bit x."""
    return rng.binomial(N_RESPONSES, P_KEEP if x else 1.0 - P_KEEP, size)


def compute_log_prob(output: Any, x: int) -> Any:
    """The log-probability of outputs of ``count_ones``."""
    return stats.binom.logpmf(output, N_RESPONSES, P_KEEP if x else 1.0 - P_KEEP)


composed = Density(sample=count_ones, log_prob=compute_log_prob)


def make_count_distribution(x: int, epsilon: float, most: int = 60) -> exact.Distribution:
    """The distribution of x plus a geometric number, which is 0 or more.

    Outputs of at least ``most`` are merged into one output, "more".
    """
    ratio = math.exp(-epsilon)
    law = {y: (1.0 - ratio) * ratio ** (y - x) for y in range(x, most)}
    return law | {"more": ratio ** (most - x)}


def derive_epsilons() -> dict[str, float]:
    """Exact epsilon by mechanism, from listed outputs or from the noise."""
    return {
        "count": exact.find_epsilon(make_count_distribution(x, EPSILON) for x in (0, 1)),
        "gaussian_sigma": find_gaussian_epsilon(DELTA, 1.0 / SIGMA),
        "composed": compose_pure_epsilons(((1.0, N_RESPONSES),), N_RESPONSES * RESPONSE_DELTA),
    }
