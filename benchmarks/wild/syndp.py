"""Mechanisms of syndp 0.5.2: synthetic time series."""

from __future__ import annotations

import contextlib
import io

import numpy as np

from benchmarks.wild import draw_one_by_one
from benchmarks.wild.package import Package

PACKAGE = Package.from_module(__name__)
MODULE = PACKAGE.load("syndp")
EPSILON = 1.0


@draw_one_by_one()
def laplace(x: float) -> float:
    """x with Laplace noise from the default seed, which is constant."""
    return float(MODULE.laplace_mechanism(float(x), 1.0, EPSILON))


def fresh_laplace(x: float, rng: np.random.Generator) -> float:
    """x with Laplace noise from a fresh seed."""
    seed = int(rng.integers(2**32))
    return float(MODULE.laplace_mechanism(float(x), 1.0, EPSILON, seed=seed))


def slope(x: int, rng: np.random.Generator) -> float:
    """The sign of the noisy slope of a series that rises (x = 1) or falls, with a fresh seed."""
    noise = MODULE.TimeDP(EPSILON, 1e-5, "bounded_laplace", seed=int(rng.integers(2**32)))
    series = np.array([0.0, 1.0] if x else [1.0, 0.0])
    return float(np.sign(MODULE.Vector_creator(series, noise).new_gradients[0]))


@draw_one_by_one()
def last(x: int) -> float:
    """The noisy last of the three values 0, 1 and 2 + x."""
    with contextlib.redirect_stdout(io.StringIO()):  # it prints
        return float(MODULE.timeseries_dp([0.0, 1.0, 2.0 + x], EPSILON)[2])
