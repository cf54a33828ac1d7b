"""Mechanism of dp-group-stats 0.1.2: Laplace noise by inversion."""

from __future__ import annotations

import numpy as np

from benchmarks.wild.package import Package

PACKAGE = Package.from_module(__name__)
MECHANISMS = PACKAGE.load("dp_group_stats.mechanisms")
EPSILON = 1.0


def laplace(x: int, rng: np.random.Generator) -> float:
    """x with the package's Laplace noise for sensitivity 1."""
    return x + float(MECHANISMS.laplace_noise(EPSILON, 1.0, rng))
