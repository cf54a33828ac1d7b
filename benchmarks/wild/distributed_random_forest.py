"""Mechanism of distributed-random-forest 0.4.0: trees with noisy leaves."""

from __future__ import annotations

import numpy as np

from benchmarks.wild.package import Package

PACKAGE = Package.from_module(__name__)
FOREST = PACKAGE.load(
    "distributed_random_forest.models.dp_rf",
    "distributed_random_forest",
    "distributed_random_forest.models",
)


def threshold(x: int, rng: np.random.Generator) -> float:
    """The split of a tree on ten records at 0 and ten at 1, of which one is at .9 for x = 1."""
    data = np.array([0.0] * 10 + [1.0] * 9 + [1.0 - 0.1 * x])[:, np.newaxis]
    labels = np.repeat([0, 1], 10)
    seed = int(rng.integers(2**31))
    forest = FOREST.DPRandomForest(n_estimators=1, epsilon=1.0, random_state=seed)
    return round(float(forest.fit(data, labels)._trees[0].tree_.threshold[0]), 4)
