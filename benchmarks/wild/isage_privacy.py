"""Mechanisms of isage-privacy 0.1.0.2: unlearned vectors with Laplace noise, counts and sums."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from benchmarks.wild import draw_in_batch, draw_one_by_one
from benchmarks.wild.package import Package

PACKAGE = Package.from_module(__name__)
UNLEARNING = PACKAGE.load("sage_privacy.dp_unlearning.unlearning_engine")
LAPLACE = PACKAGE.load("sage_privacy.dp.laplace")
EPSILON = 1.0
VECTOR_0 = np.array([1.0, 1.0])
"""The retained vector, and the vector that is forgotten for input 0."""
VECTOR_1 = np.array([1.0, 2.0])
"""The vector that is forgotten for input 1."""


def _forget(x: int, size: int, strategy: str) -> NDArray[np.float64]:
    """First entries of the vectors (x, 0) as returned when they are unlearned."""
    engine = UNLEARNING.UnlearningEngine(EPSILON, 0.0, total_budget_epsilon=EPSILON * size)
    vectors = np.tile([float(x), 0.0], (size, 1))
    names = [str(i) for i in range(size)]
    done = engine.unlearn_vectors(vectors, names, perturbation_strategy=strategy)
    return np.asarray(done.metadata["perturbed_vectors"][:, 0])


@draw_in_batch()
def selective(x: int, size: int) -> NDArray[np.float64]:
    """Unlearned vectors (first entries) by the strategy "selective"."""
    return _forget(x, size, "selective")


@draw_in_batch()
def adaptive(x: int, size: int) -> NDArray[np.float64]:
    """Unlearned vectors (first entries) by the strategy "adaptive"."""
    return _forget(x, size, "adaptive")


@draw_in_batch()
def uniform(x: int, size: int) -> NDArray[np.float64]:
    """Unlearned vectors (first entries) by the strategy "uniform"."""
    return _forget(x, size, "uniform")


@draw_one_by_one()
def compensated(x: int) -> bool:
    """Whether the returned vector and its returned neighbour are possible for input 1."""
    true = (VECTOR_0, VECTOR_1)[x]
    engine = UNLEARNING.UnlearningEngine(EPSILON, 0.0)
    said: dict[str, Any] = engine.unlearn_vectors(
        true[np.newaxis], ["u"], VECTOR_0[np.newaxis], ["n"], return_compensated_neighbors=True
    ).metadata
    noise = said["perturbed_vectors"][0] - VECTOR_1
    similarity = VECTOR_1 @ VECTOR_0 / np.linalg.norm(VECTOR_1) / np.linalg.norm(VECTOR_0)
    return np.allclose(said["compensated_neighbors"]["n"], VECTOR_0 - similarity * noise)


@draw_in_batch()
def count(x: int, size: int) -> NDArray[np.float64]:
    """Noisy counts of the data 1 and x."""
    draw = LAPLACE.LaplaceMechanism(EPSILON).private_count
    return np.array([draw(np.array([1, x])) for _ in range(size)], float)


@draw_in_batch()
def total(x: int, size: int) -> NDArray[np.float64]:
    """Noisy sums of two values, 0.2 and 9 x, clipped to [0, 1]."""
    draw = LAPLACE.LaplaceMechanism(EPSILON).private_sum
    return np.array([draw(np.array([0.2, 9.0 * x]), bounds=(0, 1)) for _ in range(size)])


def derive_epsilons() -> dict[str, float]:
    """Exact epsilon by mechanism, from a count's probability of 0 after truncation."""
    at_zero = stats.laplace.logcdf([-1.0, -2.0])
    return {"count": float(at_zero[0] - at_zero[1])}
