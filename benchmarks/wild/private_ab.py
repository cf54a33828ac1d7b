"""privateAB 0.0.2: local randomizers for two-sample tests."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.wild import at_once, load
from benchmarks.wild.finding import Finding

PACKAGE = load("privateAB.client")
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


def findings() -> tuple[Finding, ...]:
    claim = (
        "README, `release_private`: the fourth input controls the level of local differential "
        "privacy; one value of k categories, replaced"
    )

    def finding(call: Any, name: str, categories: int, **fields: Any) -> Finding:
        return Finding(
            library="privateAB",
            name=name,
            call=call,
            epsilon=EPSILON,
            inputs=(0, 1),
            setting=f"{categories} categories",
            claim=claim,
            **({"exact": EPSILON} | fields),
        )

    return (
        finding(
            discrete_three,
            "disclapu",
            3,
            exact=math.inf,
            remark="the one-hot vector is multiplied by sqrt(k) and integer noise is added: unless "
            "k is a square, the one coordinate that is no integer is the value. The README's "
            "example has k = 4, where all is well",
            holds_if="k is a square (see below)",
        ),
        finding(discrete_four, "disclapu", 4),
        finding(laplace, "lapu", 4),
        finding(response, "genrr", 4),
        finding(flips, "bitflip", 4),
    )
