"""Conversion of the models and messages of foreign code to named arrays, and back."""

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

# Arrays by name, to which a model or a message is converted.
ArraysByName = Mapping[str, NDArray[Any]]
# Name that the array gets if a message consists of a single array without a name.
NAME_OF_SINGLE_ARRAY = "values"
_DEPTH = 8
_text = cache(str)  # for dtypes, whose names numpy would compute again each time


@dataclass(frozen=True, slots=True)
class ArrayStructure:
    """Structure of an object that contains arrays, such as a dictionary of lists of tensors.

    rebuild: function that creates an object of this structure from arrays by name (the inverse of
        ``flatten``)
    part_types: type of each array and container by name, in order; "number" for all Python numbers
    """

    rebuild: Callable[[ArraysByName], Any]
    part_types: Mapping[str, str]


def flatten(value: Any, what: str) -> tuple[dict[str, NDArray[Any]], ArrayStructure]:
    """Converts an object that contains arrays to arrays by name, and returns its structure as well.

    - A single array or tensor has the name "values".
    - Names of elements are positions in lists and keys of dictionaries, joined by dots: "item.0".
    - An inner dictionary without keys becomes the array [0].
    - Sparse matrices become dense.

    ``what`` is the name of the object in error messages. Raises InputError for data that are not
    numbers, for two arrays of equal names, for masked arrays, and for sparse matrices with stored
    zeros.

    >>> arrays, structure = flatten({"item": [np.zeros(2), np.ones(3)], "n": 4}, "a message")
    >>> {name: array.shape for name, array in arrays.items()}
    {'item.0': (2,), 'item.1': (3,), 'n': (1,)}
    >>> structure.rebuild(arrays)["item"][1]
    array([1., 1., 1.])
    """
    arrays: dict[str, NDArray[Any]] = {}
    form: dict[str, str] = {}
    build = _split(value, "", arrays, form, what, _DEPTH)
    if not arrays:
        raise InputError(f"Expected an array or a number in {what}, got {value!r:.80}. Add one.")
    return arrays, ArrayStructure(build, form)


def _split(
    value: Any,
    name: str,
    arrays: dict[str, NDArray[Any]],
    form: dict[str, str],
    what: str,
    depth: int,
) -> Callable[[ArraysByName], Any]:
    named = f"{type(value).__name__} {_text(getattr(value, 'dtype', ''))}"
    form[name] = "number" if isinstance(value, bool | int | float | np.generic) else named
    if isinstance(value, Mapping) and depth:
        inner = {
            key: _split(each, f"{name}.{key}" if name else str(key), arrays, form, what, depth - 1)
            for key, each in value.items()
        }
        if name and not inner:
            arrays[f"{name}."] = np.zeros(1)
        return lambda given: {key: make(given) for key, make in inner.items()}
    if isinstance(value, list | tuple) and depth and not _are_numbers(value):
        kind = type(value) if type(value) in (list, tuple) else list
        members = [
            _split(each, f"{name}.{at}" if name else str(at), arrays, form, what, depth - 1)
            for at, each in enumerate(value)
        ]
        return lambda given: kind(make(given) for make in members)
    own = name or NAME_OF_SINGLE_ARRAY
    if own in arrays:
        raise InputError(f"Expected one part named {own!r} in {what}, got two. Rename one of them.")
    array = _to_array(value, own, what)
    shape = np.shape(value) if not sparse.issparse(value) else array.shape
    arrays[own] = array.reshape(1) if array.ndim == 0 else array
    if _is_tensor(value):
        dtype, device = value.dtype, value.device
        return lambda given: sys.modules["torch"].as_tensor(
            np.array(given[own]).reshape(shape), dtype=dtype, device=device
        )
    return lambda given: np.array(given[own]).reshape(shape)


def _are_numbers(value: list[Any] | tuple[Any, ...]) -> bool:
    return all(isinstance(each, bool | int | float | np.number) for each in value)


def _is_tensor(value: Any) -> bool:
    return "torch" in sys.modules and isinstance(value, sys.modules["torch"].Tensor)


def _to_array(value: Any, name: str, what: str) -> NDArray[Any]:
    """Converts ``value`` to one array of numbers; float16 and torch's bfloat16 become float32.

    Raises InputError for data that are not numbers.
    """
    if _is_tensor(value):
        tensor = value.detach().cpu()
        torch = sys.modules["torch"]
        value = (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()
    elif sparse.issparse(value):
        made: Any = sparse.csr_array
        value = made(value)
        if value.nnz != value.count_nonzero():
            raise InputError(
                f"Expected the sparse array {name!r} of {what} to store no zeros, got some, whose "
                "positions the audit does not see. Call the array's method eliminate_zeros()."
            )
        value = value.toarray()
    elif np.ma.isMaskedArray(value):
        raise InputError(
            f"Expected {name!r} of {what} not to be masked, got a masked array. Send data and mask."
        )
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise InputError(
            f"Expected a numeric array {name!r} in {what}, got {value!r:.60}. "
            "Give rows of equal length."
        ) from error
    if array.dtype.kind not in "biuf":
        raise InputError(
            f"Expected a numeric array {name!r} in {what}, got {value!r:.60} ({array.dtype}). "
            "Remove data that are not numbers, or replace them by integer codes."
        )
    return array.astype(np.float32) if array.dtype == np.float16 else array
