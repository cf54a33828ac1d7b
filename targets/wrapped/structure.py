"""Models and messages of others, taken apart into named arrays and put together again."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedrec_auditor.accountants.errors import InputError

Arrays = Mapping[str, NDArray[Any]]
SINGLE = "values"
"""The name of an array that comes alone."""
_DEPTH = 8
_text = cache(str)  # of dtypes: numpy spells out their names anew each time


@dataclass(frozen=True, slots=True)
class Structure:
    """How an object is made of arrays: ``build`` makes one like it of other arrays.

    ``form`` are its parts in their order, with the type of each; numbers of Python are of one.
    """

    build: Callable[[Arrays], Any]
    form: Mapping[str, str]


def take_apart(value: Any, what: str) -> tuple[dict[str, NDArray[Any]], Structure]:
    """The arrays of an object by name, and its structure.

    An array or a tensor alone is called "values"; those of a list by their places; those of a
    dictionary by their keys, inner ones behind a dot; an inner one without keys is a 0. Sparse
    matrices are made dense. InputError, with ``what`` the object is, for anything that is no
    number, for two parts of one name, and for what arrays would not show: masks, stored zeros.

    >>> arrays, structure = take_apart({"item": [np.zeros(2), np.ones(3)], "n": 4}, "a message")
    >>> {name: array.shape for name, array in arrays.items()}
    {'item.0': (2,), 'item.1': (3,), 'n': (1,)}
    >>> structure.build(arrays)["item"][1]
    array([1., 1., 1.])
    """
    arrays: dict[str, NDArray[Any]] = {}
    form: dict[str, str] = {}
    build = _apart(value, "", arrays, form, what, _DEPTH)
    if not arrays:
        raise InputError(f"Expected arrays in {what}, got {value!r:.80}. Give at least one number.")
    return arrays, Structure(build, form)


def _apart(
    value: Any,
    name: str,
    arrays: dict[str, NDArray[Any]],
    form: dict[str, str],
    what: str,
    depth: int,
) -> Callable[[Arrays], Any]:
    named = f"{type(value).__name__} {_text(getattr(value, 'dtype', ''))}"
    form[name] = "number" if isinstance(value, bool | int | float | np.generic) else named
    if isinstance(value, Mapping) and depth:
        inner = {
            key: _apart(each, f"{name}.{key}" if name else str(key), arrays, form, what, depth - 1)
            for key, each in value.items()
        }
        if name and not inner:
            arrays[f"{name}."] = np.zeros(1)
        return lambda found: {key: make(found) for key, make in inner.items()}
    if isinstance(value, list | tuple) and depth and not _plain_numbers(value):
        kind = type(value) if type(value) in (list, tuple) else list
        members = [
            _apart(each, f"{name}.{at}" if name else str(at), arrays, form, what, depth - 1)
            for at, each in enumerate(value)
        ]
        return lambda found: kind(make(found) for make in members)
    own = name or SINGLE
    if own in arrays:
        raise InputError(f"Expected one part called {own!r} in {what}, got two. Rename one.")
    array = _array(value, own, what)
    shape = np.shape(value) if not sparse.issparse(value) else array.shape
    arrays[own] = array.reshape(1) if array.ndim == 0 else array
    if _is_tensor(value):
        dtype, device = value.dtype, value.device
        return lambda found: sys.modules["torch"].as_tensor(
            np.array(found[own]).reshape(shape), dtype=dtype, device=device
        )
    return lambda found: np.array(found[own]).reshape(shape)


def _plain_numbers(value: list[Any] | tuple[Any, ...]) -> bool:
    return all(isinstance(each, bool | int | float | np.number) for each in value)


def _is_tensor(value: Any) -> bool:
    return "torch" in sys.modules and isinstance(value, sys.modules["torch"].Tensor)


def _array(value: Any, name: str, what: str) -> NDArray[Any]:
    """The numbers of one part, in float32 if they are so, whole numbers and bits as they are."""
    if _is_tensor(value):
        tensor = value.detach().cpu()
        torch = sys.modules["torch"]
        value = (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()
    elif sparse.issparse(value):
        made: Any = sparse.csr_array
        value = made(value)
        if value.nnz != value.count_nonzero():
            raise InputError(
                f"Expected no stored zeros in {name!r} of {what}: they tell where a thing is, and "
                "are not looked at. Drop them by eliminate_zeros()."
            )
        value = value.toarray()
    elif np.ma.isMaskedArray(value):
        raise InputError(f"Expected no mask on {name!r} of {what}. Send it as a part of its own.")
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise InputError(
            f"Expected an array of numbers as {name!r} of {what}, got {value!r:.60}. "
            "Give rows of equal length."
        ) from error
    if array.dtype.kind not in "biuf":
        raise InputError(
            f"Expected numbers as {name!r} of {what}, got {value!r:.60} ({array.dtype}). "
            "Leave out what is no number, or give its code."
        )
    return array.astype(np.float32) if array.dtype == np.float16 else array
