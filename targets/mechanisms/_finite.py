"""All inputs and all outputs of mechanisms that have finitely many."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accountants.errors import InputError
from targets.mechanisms._unary import Unary
from targets.mechanisms.base import Mechanism
from targets.mechanisms.product import Product
from targets.mechanisms.repeated import Repeated

_MOST_INPUTS, _MOST_OUTPUTS = 2**8, 2**16


def every_input(mechanism: Mechanism) -> NDArray[Any]:
    """All inputs, (a, *domain shape); InputError if they are infinitely many, or over 256."""
    domain = mechanism.domain
    if domain.values is None:
        raise InputError(
            f"Expected a mechanism of finitely many inputs, got the domain {domain}. "
            "Discretise it, or measure with an estimator."
        )
    entries = math.prod(domain.shape)
    _check_number(len(domain.values) ** entries, _MOST_INPUTS, "inputs")
    return np.array([*itertools.product(domain.values, repeat=entries)]).reshape(-1, *domain.shape)


def every_output(mechanism: Mechanism) -> NDArray[Any]:
    """All outputs of positive probability, (b, *output shape); InputError if none lists them.

    Products and repetitions give all tuples of what is inside, and unary encodings all bits;
    anything else must list its own as exhaustive critical outputs.
    """
    if isinstance(mechanism, (Product, Repeated)):
        times = mechanism.length if isinstance(mechanism, Product) else mechanism.count
        return _tuples(every_output(mechanism.mechanism), times)
    if isinstance(mechanism, Unary):
        return _tuples(np.array([False, True]), mechanism.categories)
    critical = mechanism.critical()
    if critical is None or not critical.exhaustive or critical.part is not None:
        raise InputError(
            f"Expected a mechanism that lists all its outputs, got {mechanism}. "
            "Discretise it, or measure with an estimator."
        )
    return critical.outputs


def which(output: ArrayLike, outputs: NDArray[Any]) -> NDArray[np.int64]:
    """The position of each output, (*batch, *output shape), in a list (b, ...); b if nowhere."""
    found = np.asarray(output)
    rows = outputs.reshape(len(outputs), -1)
    batch = found.shape[: found.ndim - (outputs.ndim - 1)]
    flat = found.reshape(math.prod(batch), rows.shape[1])
    both = np.concatenate([rows, flat], axis=0)
    # Equal rows get equal codes; the first to hold a code is the listed one.
    _, code = np.unique(both, axis=0, return_inverse=True)
    code = code.reshape(-1)
    place = np.full(len(both), len(rows))
    np.minimum.at(place, code[: len(rows)], np.arange(len(rows)))
    return np.asarray(place[code[len(rows) :]].reshape(batch))


def _tuples(one: NDArray[Any], times: int) -> NDArray[Any]:
    _check_number(len(one) ** times, _MOST_OUTPUTS, "outputs")
    chosen = np.array([*itertools.product(range(len(one)), repeat=times)])
    return np.asarray(one[chosen])


def _check_number(number: int, most: int, what: str) -> None:
    if number > most:
        raise InputError(f"Expected at most {most} {what}, got {number}. Take fewer entries.")
