"""Mechanisms of privateAB 0.0.2: local randomizers for two-sample tests."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.wild import draw_in_batch
from benchmarks.wild.package import Package

PACKAGE = Package.from_module(__name__)
MODULE = PACKAGE.load("privateAB.client")
EPSILON = 0.9


@cache
def _make_client() -> Any:
    return MODULE.client()


def _seed_torch(number: int) -> None:
    import torch

    torch.manual_seed(number)


def _release(kind: str, x: int, categories: int, size: int) -> NDArray[Any]:
    """Reports of x among ``categories`` by the mechanism ``kind``."""

    import torch

    data = torch.full((size,), int(x))
    released = _make_client().release_private(kind, data, categories, EPSILON, torch.device("cpu"))
    return np.asarray(released.numpy())


@draw_in_batch(_seed_torch)
def discrete_three(x: int, size: int) -> NDArray[Any]:
    """Reports of x among three categories by discrete Laplace noise."""
    return _release("disclapu", x, 3, size)


@draw_in_batch(_seed_torch)
def discrete_four(x: int, size: int) -> NDArray[Any]:
    """Reports of x among four categories by discrete Laplace noise."""
    return _release("disclapu", x, 4, size)


@draw_in_batch(_seed_torch)
def laplace(x: int, size: int) -> NDArray[Any]:
    """Reports of x among four categories by Laplace noise."""
    return _release("lapu", x, 4, size)


@draw_in_batch(_seed_torch)
def response(x: int, size: int) -> NDArray[Any]:
    """Reports of x among four categories by randomized response."""
    return _release("genrr", x, 4, size)


@draw_in_batch(_seed_torch)
def flips(x: int, size: int) -> NDArray[Any]:
    """Reports of x among four categories by flipped bits."""
    return _release("bitflip", x, 4, size)
