"""Mechanisms of python-dp 1.1.5, Google's library: bounded sums, means and quantiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.wild.package import Package

PACKAGE = Package.from_module(__name__)
ALGORITHMS = PACKAGE.load("pydp.algorithms.laplacian")
Call = Callable[[int, np.random.Generator, int], NDArray[np.float64]]


def _make_sampler(name: str, data: list[float], more: float, **bounds: float) -> Call:
    """Returns a sampler of ``name`` on ``data``, with ``more`` added if x = 1."""
    # The package draws from its own generator.

    def draw(x: int, rng: np.random.Generator, size: int) -> NDArray[np.float64]:
        records: list[Any] = [*data, *([more] if x else [])]
        kind = getattr(ALGORITHMS, name)
        made = (kind(epsilon=1.0, dtype="float", **bounds) for _ in range(size))
        return np.array([float(each.quick_result(records)) for each in made])

    return draw


count = _make_sampler("Count", [1.0] * 5, 1.0)
total = _make_sampler("BoundedSum", [5.0] * 3, 6.0, lower_bound=5, upper_bound=6)
signed_total = _make_sampler("BoundedSum", [0.0] * 3, -1.0, lower_bound=-1, upper_bound=1)
mean = _make_sampler("BoundedMean", [0.0] * 3, 1.0, lower_bound=0, upper_bound=1)
largest = _make_sampler("Max", [1.0] * 3, 9.0, lower_bound=0, upper_bound=10)
median = _make_sampler("Median", [1.0] * 3, 9.0, lower_bound=0, upper_bound=10)
