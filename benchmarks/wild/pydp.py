"""Mechanisms of python-dp 1.1.5, Google's library: bounded sums, means and quantiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.wild.package import Package

INSTALLED = Package.of(__name__)
ALGORITHMS = INSTALLED.load("pydp.algorithms.laplacian")
Drawn = Callable[[int, np.random.Generator, int], NDArray[np.float64]]


def _of(name: str, data: list[float], more: float, **bounds: float) -> Drawn:
    """Returns a sampler of ``name`` on ``data``, with ``more`` added if x = 1."""
    # The package draws from its own generator.

    def draw(x: int, rng: np.random.Generator, size: int) -> NDArray[np.float64]:
        records: list[Any] = [*data, *([more] if x else [])]
        kind = getattr(ALGORITHMS, name)
        made = (kind(epsilon=1.0, dtype="float", **bounds) for _ in range(size))
        return np.array([float(each.quick_result(records)) for each in made])

    return draw


count = _of("Count", [1.0] * 5, 1.0)
total = _of("BoundedSum", [5.0] * 3, 6.0, lower_bound=5, upper_bound=6)
signed_total = _of("BoundedSum", [0.0] * 3, -1.0, lower_bound=-1, upper_bound=1)
mean = _of("BoundedMean", [0.0] * 3, 1.0, lower_bound=0, upper_bound=1)
largest = _of("Max", [1.0] * 3, 9.0, lower_bound=0, upper_bound=10)
median = _of("Median", [1.0] * 3, 9.0, lower_bound=0, upper_bound=10)
