"""Mechanisms of public packages, one module per package, as callables for ``auditor verify``.

The TOML file of the same name has one table per mechanism, with the package's claim and the exact
epsilon. The table and the callable have the same name, a noun. Callables that draw from a global
generator seed it from ours before every call.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Call = Callable[[Any, np.random.Generator, int], NDArray[Any]]


def draw_in_batch(*seeders: Callable[[int], Any]) -> Callable[[Callable[[Any, int], Any]], Call]:
    """Returns a decorator that turns ``draw(x, size)`` into ``call(x, rng, size)``.

    seeders: functions that seed further global generators of ``draw`` than random's and numpy's.
    """

    def wrap(draw: Callable[[Any, int], Any]) -> Call:
        def call(x: Any, rng: np.random.Generator, size: int) -> NDArray[Any]:
            for seed in (random.seed, np.random.seed, *seeders):
                seed(rng.integers(2**32).item())
            return np.asarray(draw(x, size))

        call.__name__, call.__module__, call.__doc__ = draw.__name__, draw.__module__, draw.__doc__
        return call

    return wrap


def draw_one_by_one(*seeders: Callable[[int], Any]) -> Callable[[Callable[[Any], Any]], Call]:
    """Returns a decorator that turns ``draw(x)``, for one output, into ``call(x, rng, size)``.

    seeders: see ``draw_in_batch``.
    """

    def wrap(draw: Callable[[Any], Any]) -> Call:
        def fill(x: Any, size: int) -> NDArray[Any]:
            return np.array([draw(x) for _ in range(size)])

        fill.__name__, fill.__module__, fill.__doc__ = draw.__name__, draw.__module__, draw.__doc__
        return draw_in_batch(*seeders)(fill)

    return wrap
