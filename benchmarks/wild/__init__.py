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

Sampler = Callable[[Any, np.random.Generator, int], NDArray[Any]]


def draw_in_batch(*seeders: Callable[[int], Any]) -> Callable[[Callable[[Any, int], Any]], Sampler]:
    """Returns a decorator from ``draw(x, size)`` to ``call(x, rng, size)`` for ``verify_ldp``.

    ``draw`` uses the global generators of random and numpy, and those of ``seeders``.
    """

    def wrap(draw: Callable[[Any, int], Any]) -> Sampler:
        def call(x: Any, rng: np.random.Generator, size: int) -> NDArray[Any]:
            for seed in (random.seed, np.random.seed, *seeders):
                seed(rng.integers(2**32).item())
            return np.asarray(draw(x, size))

        call.__name__, call.__module__, call.__doc__ = draw.__name__, draw.__module__, draw.__doc__
        return call

    return wrap


def draw_one_by_one(*seeders: Callable[[int], Any]) -> Callable[[Callable[[Any], Any]], Sampler]:
    """Returns a decorator from ``draw(x)``, one output, to ``call(x, rng, size)``.

    ``seeders`` are as for ``draw_in_batch``.
    """

    def wrap(draw: Callable[[Any], Any]) -> Sampler:
        def fill(x: Any, size: int) -> NDArray[Any]:
            return np.array([draw(x) for _ in range(size)])

        fill.__name__, fill.__module__, fill.__doc__ = draw.__name__, draw.__module__, draw.__doc__
        return draw_in_batch(*seeders)(fill)

    return wrap
