"""Mechanisms of nprr 0.1.4: nonparametric randomized response of a number."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from benchmarks.wild import draw_in_batch, exact
from benchmarks.wild.package import Package

PACKAGE = Package.from_module(__name__)
EPSILON, G = 1.0, 9
vars(np)["float_"] = np.float64  # its annotations use the name, which numpy 2 dropped
MECHANISMS = PACKAGE.load("nprr.mechanisms", "nprr")


def _respond(x: float, size: int, steps: int) -> NDArray[np.float64]:
    r = MECHANISMS.r_from_G_eps(steps, EPSILON)
    return np.asarray(MECHANISMS.nprr(np.full(size, float(x)), r, steps))


@draw_in_batch()
def grid(x: float, size: int) -> NDArray[np.float64]:
    """Reports of x as points of a grid with ``G`` steps."""
    return np.round(_respond(x, size, G) * G)


@draw_in_batch()
def ends(x: float, size: int) -> NDArray[np.float64]:
    """Reports of x on a grid with one step, 0 or 1."""
    return _respond(x, size, 1)


@draw_in_batch()
def laplace(x: float, size: int) -> NDArray[np.float64]:
    """x with the package's Laplace noise."""
    return np.asarray(MECHANISMS.laplace(np.full(size, float(x)), EPSILON))


def make_distribution(place: int, steps: int, epsilon: float) -> exact.Distribution:
    """The distribution of reports of grid point ``place``.

    A rounded uniform draw has half of the probability at the ends.
    """
    r = math.expm1(epsilon) / (math.exp(epsilon) + steps)
    inner = {j: (1.0 if 0 < j < steps else 0.5) / steps for j in range(steps + 1)}
    return exact.mix([(r, {place: 1.0}), (1.0 - r, inner)])


def derive_epsilons() -> dict[str, float]:
    """Exact epsilon by mechanism, from listed outputs."""
    return {
        key: exact.find_epsilon(make_distribution(x, steps, EPSILON) for x in range(steps + 1))
        for key, steps in (("grid", G), ("ends", 1))
    }
