"""syndp 0.5.2: synthetic time series."""

from __future__ import annotations

import contextlib
import io
import math

import numpy as np

from benchmarks.wild import load, one_by_one
from benchmarks.wild.finding import Finding

PACKAGE = load("syndp")
EPSILON = 1.0


@one_by_one()
def laplace(x: float) -> float:
    return float(PACKAGE.laplace_mechanism(float(x), 1.0, EPSILON))


def fresh_laplace(x: float, rng: np.random.Generator) -> float:
    seed = int(rng.integers(2**32))
    return float(PACKAGE.laplace_mechanism(float(x), 1.0, EPSILON, seed=seed))


def slope(x: int, rng: np.random.Generator) -> float:
    """The noisy slope at the start of a series that rises (1) or falls (0); a fresh seed."""
    noise = PACKAGE.TimeDP(EPSILON, 1e-5, "bounded_laplace", seed=int(rng.integers(2**32)))
    series = np.array([0.0, 1.0] if x else [1.0, 0.0])
    return float(np.sign(PACKAGE.Vector_creator(series, noise).new_gradients[0]))


@one_by_one()
def last(x: int) -> float:
    """What the last of three values becomes; it is 2 or 3."""
    with contextlib.redirect_stdout(io.StringIO()):  # it prints
        return float(PACKAGE.timeseries_dp([0.0, 1.0, 2.0 + x], EPSILON)[2])


def findings() -> tuple[Finding, ...]:
    local = "README: data synthesis by local differential privacy; "
    small = "; a package of one author, with a README of a few lines"
    return (
        Finding(
            library="syndp",
            name="laplace_mechanism",
            call=laplace,
            epsilon=EPSILON,
            exact=math.inf,
            samples=10_000,
            setting="sensitivity 1, arguments as by default",
            claim=local + "the arguments `sensitivity` and `epsilon`",
            remark="`seed=0` by default, and numpy is seeded with it in every call: the noise is "
            "one public number",
        ),
        Finding(
            library="syndp",
            name="TimeDP, bounded Laplace",
            call=slope,
            epsilon=EPSILON,
            delta=1e-5,
            inputs=(0, 1),
            exact=math.inf,
            samples=2_000,
            setting="series of two values, a fresh seed for every call" + small,
            claim=local + "the arguments `epsilon` and `delta` of `TimeDP`; a series replaced",
            remark="the noisy slope is drawn from the half-line on which the true one lies "
            "(`create_boundary`): every rise and fall of the series is published as it is",
        ),
        Finding(
            library="syndp",
            name="timeseries_dp",
            call=last,
            epsilon=EPSILON,
            inputs=(0, 1),
            exact=math.inf,
            samples=2_000,
            setting="series 0, 1 and 2 or 3" + small,
            claim=local + "the argument `epsilon`; one value replaced",
            remark="a value is scaled to [-1, 1] by its true neighbours in the series, noised at "
            "epsilon within that range, and scaled back: what is returned lies between two true "
            "values, and beyond 2 only if the last is more. If the range were public, one "
            "value would spend epsilon. The file is called `original_timedp`, and `TimeDP` (above) "
            "is the later one; the package exports both",
        ),
        Finding(
            library="syndp",
            name="laplace_mechanism",
            call=fresh_laplace,
            epsilon=EPSILON,
            exact=EPSILON,
            setting="sensitivity 1, a fresh seed for every call",
            claim=local + "the arguments `sensitivity` and `epsilon`",
        ),
    )
