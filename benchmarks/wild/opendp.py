"""Mechanisms of opendp 0.14.1, each with the epsilon of its own privacy map."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.wild.package import Package

PACKAGE = Package.from_module(__name__)
PRELUDE = PACKAGE.load("opendp.prelude")


@cache
def _make_measurement(name: str) -> Any:
    """A mechanism by name; noise has scale 1, and responses are true with probability .75."""
    dp = PRELUDE
    dp.enable_features("contrib")
    if name == "response":
        return dp.m.make_randomized_response(["a", "b", "c"], 0.75)
    if name == "response_bool":
        return dp.m.make_randomized_response_bool(0.75)
    kind = int if name == "geometric" else float
    space = dp.atom_domain(T=kind, nan=False) if kind is float else dp.atom_domain(T=int)
    return dp.m.make_laplace(space, dp.absolute_distance(T=kind), 1.0)


def _draw(name: str, value: Any, size: int) -> NDArray[Any]:
    measurement = _make_measurement(name)
    return np.array([measurement(value) for _ in range(size)])


def laplace(x: float, rng: np.random.Generator, size: int) -> NDArray[np.float64]:
    """x with Laplace noise of scale 1, from OpenDP's own generator."""
    return _draw("laplace", float(x), size)


def geometric(x: int, rng: np.random.Generator, size: int) -> NDArray[np.int64]:
    """x with discrete Laplace noise of scale 1."""
    return _draw("geometric", int(x), size)


def response(x: int, rng: np.random.Generator, size: int) -> NDArray[np.str_]:
    """Reports of one of three values by randomized response."""
    return _draw("response", "abc"[int(x)], size)


def response_bool(x: int, rng: np.random.Generator, size: int) -> NDArray[np.bool_]:
    """Reports of a bit by randomized response."""
    return _draw("response_bool", bool(x), size)
