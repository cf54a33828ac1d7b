"""All inputs and all outputs of mechanisms that have finitely many."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedrec_auditor.accountants.errors import InputError
from fedrec_auditor.targets.mechanisms.base import Mechanism
from fedrec_auditor.targets.mechanisms.parts.unary import Unary
from fedrec_auditor.targets.mechanisms.product import Product
from fedrec_auditor.targets.mechanisms.repeated import Repeated

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
    found, entries = np.asarray(output), math.prod(outputs.shape[1:])
    batch = found.shape[: found.ndim - (outputs.ndim - 1)]
    listed, flat = outputs.reshape(-1, entries), found.reshape(-1, entries)
    known = np.ones(len(flat), dtype=bool)
    place, position = np.zeros(len(listed), dtype=np.int64), np.zeros(len(flat), dtype=np.int64)
    # Column by column, both are numbered by what is listed up to there.
    for mine, theirs in zip(listed.T, flat.T, strict=True):
        values, mine = np.unique(mine, return_inverse=True)
        theirs = _find(values, theirs, known)
        kept, place = np.unique(place * len(values) + mine, return_inverse=True)
        position = _find(kept, position * len(values) + theirs, known)
    return np.asarray(np.where(known, np.argsort(place)[position], len(listed)).reshape(batch))


def _find(values: NDArray[Any], wanted: NDArray[Any], known: NDArray[np.bool_]) -> NDArray[Any]:
    """Positions in ``values``, which rise; what is not there is struck off ``known``."""
    at = np.minimum(np.searchsorted(values, wanted), len(values) - 1)
    known &= values[at] == wanted
    return at


def _tuples(one: NDArray[Any], times: int) -> NDArray[Any]:
    _check_number(len(one) ** times, _MOST_OUTPUTS, "outputs")
    chosen = np.array([*itertools.product(range(len(one)), repeat=times)])
    return np.asarray(one[chosen])


def _check_number(number: int, most: int, what: str) -> None:
    if number > most:
        raise InputError(f"Expected at most {most} {what}, got {number}. Take fewer entries.")
