"""Pairs of distributions of scores with known smallest epsilon, for tests of estimators.

The epsilon is computed without an estimator.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.accountants.losses.divergences import find_gaussian_epsilon
from fedrec_auditor.accountants.statements import Bound
from fedrec_auditor.auditor.worlds.estimators.base import Estimator
from fedrec_auditor.auditor.worlds.sampler import REPORT_SCOPE
from fedrec_auditor.auditor.worlds.worlds import Worlds

Scores = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Scores]


@dataclass(frozen=True, slots=True)
class World:
    """Samplers of scores under two inputs, a and b, and the true epsilon as a function of delta."""

    a: Draw
    b: Draw
    truth: Callable[[float], float]


def coin(p: float) -> Draw:
    """Returns a sampler of scores that are 1 with probability p, else 0."""
    return lambda rng, n: (rng.random(n) < p).astype(np.float64)


def response(epsilon: float) -> World:
    """Randomized response on one bit with the given epsilon."""
    p = 1 / (1 + math.exp(-epsilon))
    return World(coin(p), coin(1 - p), lambda delta: math.log(max(1.0, (p - delta) / (1 - p))))


def laplace(gap: float) -> World:
    """Two Laplace distributions of scale 1, ``gap`` apart: delta(eps) = 1 - e^((eps - gap)/2)."""
    return World(
        lambda rng, n: rng.laplace(gap, 1.0, n),
        lambda rng, n: rng.laplace(0.0, 1.0, n),
        lambda delta: max(0.0, gap + 2 * math.log1p(-delta)),
    )


def gaussian(mu: float) -> World:
    """Two unit normal distributions, ``mu`` apart (Balle and Wang 2018, Theorem 8)."""
    return World(
        lambda rng, n: rng.normal(mu, 1, n),
        lambda rng, n: rng.normal(0, 1, n),
        lambda delta: find_gaussian_epsilon(delta, mu),
    )


NOTHING = "no leak"
WORLDS = {
    NOTHING: World(
        lambda rng, n: rng.normal(size=n), lambda rng, n: rng.normal(size=n), lambda delta: 0.0
    ),
    "response 1": response(1.0),
    "laplace 1": laplace(1.0),
    "gaussian 1": gaussian(1.0),
}


def worlds_of(a: Draw, b: Draw) -> Worlds:
    """Returns the ``Worlds`` object of two samplers of scores."""
    return Worlds(
        names=("world a", "world b"),
        scope=REPORT_SCOPE,
        draw=lambda world, size, rng: (a, b)[world](rng, size),
    )


def estimate(
    estimator: Estimator,
    worlds: Worlds,
    *,
    delta: float = 0.0,
    confidence: float = 0.95,
    samples: int = 1_000,
    seed: int | np.random.SeedSequence | np.random.Generator = 0,
) -> Bound:
    """Returns one bound of the estimator, with a generator seeded by ``seed``."""
    rng = np.random.default_rng(seed)
    return estimator.measure_bound(
        worlds, delta=delta, confidence=confidence, samples=samples, rng=rng
    )


def estimates(
    estimator: Estimator,
    world: World,
    *,
    delta: float,
    confidences: tuple[float, ...],
    runs: int,
    n: int,
) -> NDArray[np.float64]:
    """Returns epsilons (runs, len(confidences)) of ``runs`` experiments with n scores per world."""
    worlds, found = worlds_of(world.a, world.b), np.empty((runs, len(confidences)))
    for run, rng in enumerate(np.random.default_rng(2026).spawn(runs)):
        bounds = estimator.measure_bounds(
            worlds, delta=delta, confidences=confidences, samples=n, rng=rng
        )
        found[run] = [bound.epsilon for bound in bounds]
    return found
