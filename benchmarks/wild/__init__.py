"""Mechanisms of public packages, one module per package, as callables for ``auditor verify``.

The package's claims and the expected results are in the TOML file of the same name. Each callable
draws from a global generator, which is seeded from ours before every call.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Drawn = Callable[[Any, np.random.Generator, int], NDArray[Any]]


def at_once(*seeders: Callable[[int], Any]) -> Callable[[Callable[[Any, int], Any]], Drawn]:
    """Returns a decorator from ``draw(x, size)`` to ``call(x, rng, size)`` for ``verify_ldp``.

    ``draw`` uses the global generators of random and numpy, and those of ``seeders``.
    """

    def wrap(draw: Callable[[Any, int], Any]) -> Drawn:
        def call(x: Any, rng: np.random.Generator, size: int) -> NDArray[Any]:
            for seed in (random.seed, np.random.seed, *seeders):
                seed(rng.integers(2**32).item())
            return np.asarray(draw(x, size))

        call.__name__, call.__module__, call.__doc__ = draw.__name__, draw.__module__, draw.__doc__
        return call

    return wrap


def one_by_one(*seeders: Callable[[int], Any]) -> Callable[[Callable[[Any], Any]], Drawn]:
    """Returns a decorator from ``draw(x)``, one output, to ``call(x, rng, size)``.

    ``seeders`` are as for ``at_once``.
    """

    def wrap(draw: Callable[[Any], Any]) -> Drawn:
        def many(x: Any, size: int) -> NDArray[Any]:
            return np.array([draw(x) for _ in range(size)])

        many.__name__, many.__module__, many.__doc__ = draw.__name__, draw.__module__, draw.__doc__
        return at_once(*seeders)(many)

    return wrap
