"""Reimplements FedGCDR at 98b2af0: the noise on vectors that go to other domains."""

from __future__ import annotations

import math

from fedrec_auditor.accountants.losses.divergences import find_gaussian_epsilon

EPSILON, DELTA = 8.0, 1e-5
SIGMA = math.sqrt(2.0 * math.log(1.25 / DELTA)) / EPSILON


def derive_epsilons() -> dict[str, float]:
    """Exact epsilon by mechanism, derived from the noise."""
    return {
        "present": find_gaussian_epsilon(DELTA, 1.0 / SIGMA),
        "replaced": find_gaussian_epsilon(DELTA, 2.0 / SIGMA),
    }
