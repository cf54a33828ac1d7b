"""NumPy arrays whose entries may depend on random draws, for code that is being traced.

A ``TracedArray`` holds objects that stand for numbers. NumPy functions are applied to these objects
where possible (NEP 13 and NEP 18). Other functions receive an array of plain numbers, for which the
execution path (one run of the code) is restricted to a single value of every entry: this fixes the
entry. Other paths take its other values.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from fedrec_auditor.auditor.tracing import known
from fedrec_auditor.auditor.tracing.affine_noise import AffineNoise, make_cast, select, to_scalar
from fedrec_auditor.auditor.tracing.paths import NotTraced
from fedrec_auditor.auditor.tracing.symbols import Symbol, apply_to_values


class TracedArray(np.ndarray):
    """An array of objects, each a concrete value or a ``Symbol`` (a value that depends on random
    draws).

    ``number_dtype``: dtype of the numbers that the objects stand for, of any kind (also integers).
    """

    number_dtype: np.dtype[Any]

    @classmethod
    def wrap(cls, objects: Any, dtype: Any) -> TracedArray:
        """Makes a traced array that holds ``objects`` unchanged.

        ``dtype``: dtype of the numbers that the objects stand for.
        """
        array = np.asarray(objects, dtype=object).view(cls)
        array.number_dtype = np.dtype(dtype)
        return array

    @classmethod
    def convert(cls, objects: Any, dtype: Any) -> TracedArray:
        """Makes a traced array that holds ``objects``, each converted to ``dtype``.

        ``dtype``: dtype of the numbers that the objects stand for.
        """
        return cls.wrap(_vectorize(make_cast(dtype))(np.asarray(objects, dtype=object)), dtype)

    def __array_finalize__(self, origin: Any) -> None:
        self.number_dtype = getattr(origin, "number_dtype", np.dtype(np.float64))

    @property
    def dtype(self) -> Any:
        """The dtype of the numbers that the objects stand for."""
        return self.number_dtype

    @property
    def objects(self) -> Any:
        """View of the entries as an ordinary NumPy array of objects."""
        return self.view(np.ndarray)

    def to_concrete(self) -> Any:
        """Restricts the execution path to one value of every entry; returns these plain numbers.

        Raises NotTraced for an entry that is noise (``AffineNoise``), which has no single values to
        choose from.
        """
        entries = [e.to_concrete() if isinstance(e, Symbol) else e for e in self.objects.ravel()]
        return np.array(entries, dtype=self.number_dtype).reshape(self.shape)

    def astype(self, dtype: Any, *_: Any, **__: Any) -> Any:
        """Returns the array with its entries converted to ``dtype``."""
        return TracedArray.convert(self.objects, dtype)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, TracedArray):
            if index.dtype.kind == "b" and index.shape == self.shape and _is_symbolic(index):
                return MaskedEntries(self, index)
            index = index.to_concrete()
        result = self.objects[_fix_index(index)]
        is_array = isinstance(result, np.ndarray)
        return TracedArray.wrap(result, self.number_dtype) if is_array else result

    def __setitem__(self, index: Any, value: Any) -> None:
        if isinstance(index, TracedArray):
            if index.dtype.kind == "b" and index.shape == self.shape and _is_symbolic(index):
                full = isinstance(value, MaskedEntries) and value.has_same_mask(index)
                if full or not np.ndim(value):
                    value = value.values.objects if full else to_object_array(value)
                    value = _vectorize(make_cast(self.number_dtype))(value)
                    self.objects[...] = _vectorize(select)(index.objects, value, self.objects)
                    return
            index = index.to_concrete()
        if isinstance(value, MaskedEntries):
            value = value.to_concrete()
        places = _fix_index(index)
        if isinstance(value, Symbol):  # else NumPy would store the 0-dimensional array itself
            places = (*places, ...) if isinstance(places, tuple) else (places, ...)
        self.objects[places] = _vectorize(make_cast(self.number_dtype))(to_object_array(value))

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        out = options.pop("out", None)
        if options.pop("where", True) is not True or method in ("at", "reduceat"):
            raise NotTraced("the code uses where=, .at or .reduceat of a ufunc. Use a loop instead")
        dtype = options.pop("dtype", None)
        given = {} if dtype is None else {"dtype": dtype}
        symbolic = any(map(_is_symbolic, inputs))
        if not symbolic:
            plain = map(_fix_values, inputs)
            result: Any = _wrap_arrays(getattr(ufunc, method)(*plain, **options, **given))
        elif ufunc.signature is not None:
            result = getattr(ufunc, method)(*map(to_object_array, inputs), **options)
            dtype = np.result_type(*(getattr(v, "dtype", type(v)) for v in inputs))
        elif method == "__call__":
            result = _vectorize(ufunc)(*map(to_object_array, inputs))
            dtype = _find_dtype(ufunc, inputs, **given)
        else:
            both = inputs if method == "outer" else inputs[:1]
            dtype = _find_dtype(getattr(ufunc, method), both, **given)
            adding = ufunc in (np.add, np.multiply)
            inputs = (inputs[0].astype(dtype), *inputs[1:]) if adding else inputs
            result = getattr(_vectorize(ufunc), method)(*map(to_object_array, inputs), **options)
        if symbolic:
            array = isinstance(result, np.ndarray)
            cast = make_cast(dtype)
            result = _to_array(result, dtype, inputs) if array else apply_to_values(cast, result)
        if out is None:
            return result
        if not isinstance(out[0], TracedArray) and isinstance(result, TracedArray):
            if _is_symbolic(result):
                raise NotTraced("a += b or out= writes draws into an array. Use a = a + b instead")
            result = result.to_concrete()
        if symbolic and not np.can_cast(dtype, out[0].dtype, "same_kind"):
            raise TypeError(f"Cannot cast ufunc output from {dtype} to {out[0].dtype}")
        out[0][...] = result
        return out[0]

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        handler = _HANDLERS.get(function)
        if handler is not None:
            return handler(*args, **kwargs)
        if _is_symbolic([*args, *kwargs.values()]):
            with suppress(TypeError, AttributeError, ValueError):
                return super().__array_function__(function, types, args, kwargs)
        decided = {name: _fix_values(value) for name, value in kwargs.items()}
        return _wrap_arrays(function(*map(_fix_values, args), **decided))

    def __bool__(self) -> bool:
        return bool(self.to_concrete())

    def tolist(self) -> Any:
        """Returns nested lists of the entries: numbers or symbols (values that depend on draws)."""
        return _vectorize(to_scalar)(self.objects).tolist()

    def clip(self, low: Any = None, high: Any = None, **_: Any) -> Any:  # type: ignore[override]
        """Returns the array with its entries clipped to [low, high], as ``numpy.clip`` does."""
        return _clip(self, low, high)

    def round(self, decimals: int = 0, **_: Any) -> Any:  # type: ignore[override]
        """Returns the array with its entries rounded, as ``numpy.round`` does."""
        return _round(self, decimals)

    def copy(self, *_: Any, **__: Any) -> TracedArray:
        """Returns a copy of the array."""
        return TracedArray.wrap(self.objects.copy(), self.number_dtype)

    def nonzero(self) -> Any:
        """Returns the indices of the entries that are not zero, one array per axis.

        The execution path is first restricted to one value of every entry.
        """
        return _wrap_arrays(self.to_concrete().nonzero())

    def view(self, *kind: Any) -> Any:  # type: ignore[override]
        """Returns a view of the array as another array class.

        Raises NotTraced for a view as another dtype, which would reinterpret the bytes.
        """
        if kind and not (isinstance(kind[0], type) and issubclass(kind[0], np.ndarray)):
            raise NotTraced("the code reads bytes by view(dtype). To convert values, use astype")
        return super().view(*kind)

    def tobytes(self, *_: Any) -> bytes:
        """Returns the bytes of the array of numbers that the entries stand for.

        The execution path is first restricted to one value of every entry.
        """
        return bytes(self.to_concrete().tobytes())


class MaskedEntries(np.lib.mixins.NDArrayOperatorsMixin):
    """The entries ``array[mask]`` for a mask that depends on random draws that are not fixed yet.

    Element-wise operations with plain numbers are computed for the whole array. Their result can be
    assigned to ``array[mask]`` without a branch of the execution path. Every other operation first
    restricts the path to one value of the mask.
    """

    def __init__(self, values: TracedArray, mask: TracedArray) -> None:
        self.values, self.mask = values.copy(), mask.copy()

    def has_same_mask(self, mask: TracedArray) -> bool:
        """Whether ``mask`` has the same shape and the same objects as the mask of these entries."""
        pairs = zip(self.mask.objects.flat, mask.objects.flat, strict=True)
        return self.mask.shape == mask.shape and all(a is b for a, b in pairs)

    def to_concrete(self) -> Any:
        """Restricts the execution path to one value of the mask; returns the array ``array[mask]``.

        Other paths take the other values of the mask.
        """
        return self.values[self.mask.to_concrete()]

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        picked = [value for value in inputs if isinstance(value, MaskedEntries)]
        numbers = all(isinstance(v, MaskedEntries) or not np.ndim(v) for v in inputs)
        numbers = numbers and all(selection.has_same_mask(self.mask) for selection in picked)
        if method == "__call__" and not options and numbers:
            entries = (v.values if isinstance(v, MaskedEntries) else v for v in inputs)
            return MaskedEntries(ufunc(*entries), self.mask)
        if method == "__call__" and options == {"out": (self,)}:  # array[mask] += ...
            return getattr(ufunc, method)(*inputs)
        bare = (v.to_concrete() if isinstance(v, MaskedEntries) else v for v in inputs)
        return getattr(ufunc, method)(*bare, **options)

    def astype(self, dtype: Any, **_: Any) -> MaskedEntries:
        """Returns the masked entries converted to ``dtype``."""
        return MaskedEntries(self.values.astype(dtype), self.mask)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.asarray(self.to_concrete(), dtype=dtype)

    def __len__(self) -> int:
        return len(self.to_concrete())

    def __getattr__(self, name: str) -> Any:
        return getattr(self.to_concrete(), name)

    def __getitem__(self, index: Any) -> Any:
        return self.to_concrete()[index]


def apply_elementwise(ufunc: np.ufunc, *inputs: Any) -> Any:
    """Returns the result of ``ufunc``, applied entry by entry to arrays and symbols.

    A symbol is a value that depends on random draws.
    """
    objects = _vectorize(ufunc)(*map(to_object_array, inputs))
    return _to_array(objects, _find_dtype(ufunc, inputs), inputs)


def apply_to_symbols(function: Any, args: Any, kwargs: Any) -> Any:
    """Calls a NumPy function whose arguments may be symbols (values that depend on random draws).

    Each symbol counts as a 0-dimensional array. Returns the result of the function.
    """

    def wrap(value: Any) -> Any:
        """Converts a symbol to a 0-dimensional traced array; returns other values unchanged."""
        symbol = isinstance(value, Symbol)
        return TracedArray.wrap(to_object_array(value), float) if symbol else value

    result = function(*map(wrap, args), **{name: wrap(value) for name, value in kwargs.items()})
    single = isinstance(result, TracedArray) and not result.ndim
    return result.objects[()] if single else result


def _vectorize(function: Callable[..., Any]) -> Any:
    """Returns ``function`` as a ufunc on arrays of objects.

    The objects may be symbols (values that depend on random draws).
    """
    arity = getattr(function, "nin", None) or (3 if function is select else 1)
    return np.frompyfunc(partial(apply_to_values, function), arity, 1)


def to_object_array(value: Any) -> Any:
    """Converts an array to a NumPy array of objects; returns a plain number unchanged.

    A symbol (a value that depends on random draws) becomes a 0-dimensional array.
    """
    if isinstance(value, TracedArray):
        return value.objects
    if isinstance(value, MaskedEntries):
        return to_object_array(value.to_concrete())
    symbol = isinstance(value, Symbol)
    array = np.empty((), object) if symbol else np.asarray(value)
    if not (symbol or array.ndim):
        return value
    # Each entry stays a NumPy number, which ``astype(object)`` would convert.
    objects = np.empty(array.shape, dtype=object)
    for place in np.ndindex(array.shape):
        objects[place] = value if symbol else array[place]
    return objects


def _find_dtype(function: Callable[..., Any], inputs: Any, **options: Any) -> Any:
    """Returns the dtype that NumPy gives to the result of ``function`` for inputs like ``inputs``.

    NumPy may raise TypeError.
    """

    def typical(value: Any) -> Any:
        array = isinstance(value, np.ndarray)
        return np.ones(value.ndim and 1, value.dtype) if array else _make_example(value)

    with np.errstate(all="ignore"):
        return np.asarray(function(*map(typical, inputs), **options)).dtype


def _to_array(objects: Any, dtype: Any, inputs: Any) -> Any:
    """Returns ``objects``, computed entry by entry from ``inputs``, as a traced array of ``dtype``.

    The array is concrete if no object depends on a random draw and the execution path fixes each
    discrete draw when it is made.
    """
    array = TracedArray.convert(objects, dtype)
    if not _is_symbolic(array):
        entries = (e for v in inputs if isinstance(v, TracedArray) for e in v.objects.flat)
        symbol = next((entry for entry in entries if isinstance(entry, Symbol)), None)
        if symbol is not None and symbol.path.eager:
            return array.to_concrete()
    return array


def _is_symbolic(value: Any) -> bool:
    """Whether a value depends on a random draw that is not fixed yet."""
    if isinstance(value, TracedArray):
        return any(isinstance(entry, Symbol) for entry in value.objects.ravel())
    if isinstance(value, (list, tuple)):
        return any(map(_is_symbolic, value))
    return isinstance(value, (Symbol, MaskedEntries))


def _fix_index(index: Any) -> Any:
    if isinstance(index, tuple):
        return tuple(map(_fix_index, index))
    return index.to_concrete() if isinstance(index, (TracedArray, Symbol)) else index


def _wrap_arrays(result: Any) -> Any:
    """Converts a concrete array, or each array in a tuple, to a ``TracedArray``.

    Entries of the new array may later depend on random draws.
    """
    if isinstance(result, tuple):
        return tuple(map(_wrap_arrays, result))
    plain = isinstance(result, np.ndarray) and result.ndim and not isinstance(result, TracedArray)
    return TracedArray.wrap(result, result.dtype) if plain else result


def _fix_values(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(map(_fix_values, value))
    return value.to_concrete() if isinstance(value, (TracedArray, MaskedEntries, Symbol)) else value


def _where(condition: Any, a: Any = None, b: Any = None) -> Any:
    if a is None and b is None:
        return _wrap_arrays(_fix_values(condition).nonzero())
    picked = _vectorize(select)(to_object_array(condition), to_object_array(a), to_object_array(b))
    kind = _find_dtype(np.where, (np.ones(1, bool), a, b))
    return _to_array(picked, kind, (condition, a, b))


def _clip(array: Any, low: Any = None, high: Any = None, **options: Any) -> Any:
    low, high = options.get("a_min", low), options.get("a_max", high)
    low, high = options.get("min", low), options.get("max", high)
    result = array
    if low is not None:
        result = np.maximum(result, low)
    return result if high is None else np.minimum(result, high)


def _round(array: Any, decimals: int = 0, **_: Any) -> Any:
    digits = int(decimals)
    rounded = np.frompyfunc(lambda entry: apply_to_values(np.round, entry, digits), 1, 1)
    return TracedArray.convert(rounded(to_object_array(array)), array.dtype)


_HANDLERS: dict[Any, Callable[..., Any]] = {
    np.where: _where,
    np.clip: _clip,
    np.round: _round,
    np.around: _round,
    np.copy: lambda array, *_, **__: array.copy(),
}
Symbol.call_numpy, Symbol.call_ufunc = apply_to_symbols, apply_elementwise


def _make_example(entry: Any) -> Any:
    """Returns an example number with the type of ``entry``, which may depend on random draws."""
    value = entry.list_values()[0][1] if isinstance(entry, Symbol) else entry
    return 1.0 if isinstance(value, AffineNoise) else value


def _to_lists(value: Any) -> Any:
    """Converts arrays and sequences to nested lists; returns other values unchanged."""
    if isinstance(value, (list, tuple)):
        return [_to_lists(entry) for entry in value]
    return to_object_array(value).tolist() if isinstance(value, np.ndarray) else value


def _wrap_constructor(function: Callable[..., Any], eager: bool) -> Callable[..., Any]:
    """Wraps ``function``, which makes an array, so that it makes a ``TracedArray``.

    ``eager``: whether the execution path fixes each discrete draw when it is made; arrays without
        symbols then stay plain arrays.
    """

    def make(*args: Any, **kwargs: Any) -> Any:
        given = args[0] if args else None
        if function in (np.array, np.asarray):
            dtype = kwargs.get("dtype", args[1] if len(args) > 1 else None)
            if isinstance(given, TracedArray):
                copied = given.copy() if function is np.array else given
                return copied if dtype is None else copied.astype(dtype)
            if isinstance(given, (list, tuple, Symbol)):
                single = isinstance(given, Symbol)
                objects = to_object_array(given) if single else np.array(_to_lists(given), object)
                if any(isinstance(entry, Symbol) for entry in objects.ravel()):
                    kind = np.array([_make_example(entry) for entry in objects.ravel()]).dtype
                    return TracedArray.convert(objects, kind if dtype is None else dtype)
        made = function(*args, **kwargs)
        if isinstance(made, np.ndarray) and made.dtype.kind in "biufU" and not eager:
            return TracedArray.convert(made.astype(object), made.dtype)
        return made

    return make


def get_replacement_by_id(eager: bool) -> dict[int, Any]:
    """Returns replacements for NumPy and Python functions that make arrays or compute numbers, by
    the function's ``id``.

    A replacement accepts symbols (values that depend on random draws). ``eager``: whether the
    execution path fixes each discrete draw when it is made.
    """

    def accept_symbols(function: Callable[..., Any]) -> Callable[..., Any]:
        """Extends a function of numbers to arguments that are symbols."""
        return lambda *arguments, **named: (
            function(*arguments, **named) if named else apply_to_values(function, *arguments)
        )

    result = {id(f): _wrap_constructor(f, eager) for f in known.ARRAY_CONSTRUCTORS.values()}
    return result | {id(f): accept_symbols(f) for f in (float, int, *known.MATH_FUNCTIONS.values())}
