"""Mechanisms of privateAB 0.0.2: local randomizers for two-sample tests."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.wild import at_once
from benchmarks.wild.package import Package

INSTALLED = Package.of(__name__)
PACKAGE = INSTALLED.load("privateAB.client")
EPSILON = 0.9


@cache
def _client() -> Any:
    return PACKAGE.client()


def _seed(number: int) -> None:
    import torch

    torch.manual_seed(number)


def _release(kind: str, x: int, categories: int, size: int) -> NDArray[Any]:
    import torch

    data = torch.full((size,), int(x))
    released = _client().release_private(kind, data, categories, EPSILON, torch.device("cpu"))
    return np.asarray(released.numpy())


@at_once(_seed)
def discrete_three(x: int, size: int) -> NDArray[Any]:
    return _release("disclapu", x, 3, size)


@at_once(_seed)
def discrete_four(x: int, size: int) -> NDArray[Any]:
    return _release("disclapu", x, 4, size)


@at_once(_seed)
def laplace(x: int, size: int) -> NDArray[Any]:
    return _release("lapu", x, 4, size)


@at_once(_seed)
def response(x: int, size: int) -> NDArray[Any]:
    return _release("genrr", x, 4, size)


@at_once(_seed)
def flips(x: int, size: int) -> NDArray[Any]:
    return _release("bitflip", x, 4, size)
