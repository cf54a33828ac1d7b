"""Mechanisms of pipeline-dp 0.3.1: noise on vectors, and a random choice by scores."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.wild import exact
from benchmarks.wild.package import Package

PACKAGE = Package.from_module(__name__)
COMPUTATIONS = PACKAGE.load("pipeline_dp.dp_computations")
KINDS = PACKAGE.load("pipeline_dp.aggregate_params")
EPSILON, N_OTHERS = 1.0, 9
LARGE_SCORE = 1_419.0
"""The exponential of half this score is finite in doubles, of half this score plus 1 it is not."""
FAILURE = -1


def vector(x: float, rng: np.random.Generator, size: int) -> NDArray[np.float64]:
    """The vector (x, x) with Laplace noise for its largest entry."""
    settings = COMPUTATIONS.AdditiveVectorNoiseParams(
        eps=EPSILON,
        delta=0.0,
        max_norm=1.0,
        l0_sensitivity=1.0,
        linf_sensitivity=1.0,
        norm_kind=KINDS.NormKind.Linf,
        noise_kind=KINDS.NoiseKind.LAPLACE,
    )
    whole = np.array([x, x])
    return np.array([COMPUTATIONS.add_noise_vector(whole, settings) for _ in range(size)])


class _Scores:
    """Scores of the entries of a list, with sensitivity 1."""

    global_sensitivity, is_monotonic = 1.0, False

    def __init__(self, scores: Sequence[float]) -> None:
        self.score = [*scores].__getitem__


def _choose(scores: Sequence[float], rng: np.random.Generator, size: int) -> NDArray[np.int64]:
    """Indices drawn by the package's probabilities for these scores; -1 if it fails."""
    places: list[Any] = list(range(len(scores)))
    mechanism = COMPUTATIONS.ExponentialMechanism(_Scores(scores))
    with np.errstate(over="ignore", invalid="ignore"):
        chances = mechanism._calculate_probabilities(EPSILON, places)
        try:
            mechanism.apply(EPSILON, places)
        except ValueError:  # the caller gets an error
            return np.full(size, FAILURE)
    return rng.choice(places, size, p=chances)


def _make_scores(x: int) -> list[float]:
    """Score x of the first entry, and 1 - x of the others."""
    return [float(x), *[1.0 - x] * N_OTHERS]


def exponential(x: int, rng: np.random.Generator, size: int) -> NDArray[np.int64]:
    """Indices drawn from ten, of which the first has score x and the others 1 - x."""
    return _choose(_make_scores(x), rng, size)


def large_scores(x: int, rng: np.random.Generator, size: int) -> NDArray[np.int64]:
    """Indices drawn from two scores, a large count plus x, and 0."""
    return _choose([LARGE_SCORE + x, 0.0], rng, size)


def derive_epsilons() -> dict[str, float]:
    """Exact epsilon by mechanism, from the noise and from listed outputs."""
    weights = [np.exp(np.array(_make_scores(x)) * EPSILON / 2.0) for x in (0, 1)]
    laws = [dict(enumerate((each / each.sum()).tolist())) for each in weights]
    return {"vector": EPSILON, "exponential": exact.find_epsilon(laws), "large_scores": math.inf}
