"""nprr 0.1.4: nonparametric randomized response."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.wild import at_once, exact, load
from benchmarks.wild.finding import Finding

EPSILON, G = 1.0, 9
CLAIM = (
    "`r_from_G_eps`: the r at which a grid of G steps has the epsilon that is given, also in "
    "`G_from_r_eps` and `r_G_opt_entropy`; one value in [0, 1], replaced"
)


vars(np)["float_"] = np.float64  # its annotations use the name, which numpy 2 dropped
MECHANISMS = load("nprr.mechanisms", "nprr")


def _respond(x: float, size: int, steps: int) -> NDArray[np.float64]:
    r = MECHANISMS.r_from_G_eps(steps, EPSILON)
    return np.asarray(MECHANISMS.nprr(np.full(size, float(x)), r, steps))


@at_once()
def grid(x: float, size: int) -> NDArray[np.float64]:
    return np.round(_respond(x, size, G) * G)


@at_once()
def ends(x: float, size: int) -> NDArray[np.float64]:
    return _respond(x, size, 1)


@at_once()
def laplace(x: float, size: int) -> NDArray[np.float64]:
    return np.asarray(MECHANISMS.laplace(np.full(size, float(x)), EPSILON))


def distribution(place: int, steps: int, epsilon: float) -> exact.Distribution:
    """Of a value on the grid; the other draw is a uniform one, rounded: the ends get half."""
    r = math.expm1(epsilon) / (math.exp(epsilon) + steps)
    inner = {j: (1.0 if 0 < j < steps else 0.5) / steps for j in range(steps + 1)}
    return exact.mixture([(r, {place: 1.0}), (1.0 - r, inner)])


def findings() -> tuple[Finding, ...]:
    def finding(call: Any, name: str, **fields: Any) -> Finding:
        return Finding(library="nprr", name=name, call=call, epsilon=EPSILON, **fields)

    return (
        finding(
            grid,
            "nprr",
            exact=exact.epsilon(distribution(place, G, EPSILON) for place in range(G + 1)),
            setting=f"G {G}, r by r_from_G_eps",
            samples=100_000,
            claim=CLAIM,
            remark="r is right for a second draw that is uniform on the G + 1 grid points, but the "
            "code rounds a uniform number to the grid: the two ends come up half as often as a "
            "point within, and the value 0 stands out against half the noise. "
            "The ratio is 1 + (e^epsilon - 1) 2G / (G + 1), up to 2 e^epsilon - 1 for a fine grid, "
            "and e^epsilon for G = 1 alone",
        ),
        finding(
            ends,
            "nprr",
            exact=exact.epsilon(distribution(place, 1, EPSILON) for place in (0, 1)),
            setting="G 1, r by r_from_G_eps",
            samples=100_000,
            claim=CLAIM,
        ),
        finding(
            laplace,
            "laplace",
            exact=EPSILON,
            setting="values in [0, 1]",
            claim="docstring: the Laplace mechanism, `eps` the privacy parameter; one value in "
            "[0, 1], replaced",
        ),
    )
