"""Arrays whose entries may be symbols: element-wise work on them decides nothing.

A ``TracedArray`` is an array of objects that says the type it stands for. What NumPy does element
by element is applied entry by entry (NEP 13); its other functions work on the objects (NEP 18), or
on plain arrays once the path has decided on every entry.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from fedrec_auditor.auditor.tracing import known
from fedrec_auditor.auditor.tracing.lines import Line, converter, pick, to_item
from fedrec_auditor.auditor.tracing.paths import NotTraced
from fedrec_auditor.auditor.tracing.symbols import Symbol, apply


class TracedArray(np.ndarray):
    """Objects, each a plain value or a ``Symbol``; ``stands_for`` is the type of its entries."""

    stands_for: np.dtype[Any]

    @classmethod
    def of(cls, objects: Any, dtype: Any) -> TracedArray:
        """An array of ``objects`` that stands for one of ``dtype``."""
        array = np.asarray(objects, dtype=object).view(cls)
        array.stands_for = np.dtype(dtype)
        return array

    @classmethod
    def typed(cls, objects: Any, dtype: Any) -> TracedArray:
        """The same, each entry as the number of NumPy that it is in such an array."""
        return cls.of(_each(converter(dtype))(np.asarray(objects, dtype=object)), dtype)

    def __array_finalize__(self, origin: Any) -> None:
        self.stands_for = getattr(origin, "stands_for", np.dtype(np.float64))

    @property
    def dtype(self) -> Any:
        """The type of the entries that it stands for."""
        return self.stands_for

    @property
    def objects(self) -> Any:
        """The entries, as a plain array of objects."""
        return self.view(np.ndarray)

    def plain(self) -> Any:
        """The array that the path decides on; NotTraced where noise has a density."""
        entries = [e.plain() if isinstance(e, Symbol) else e for e in self.objects.ravel()]
        return np.array(entries, dtype=self.stands_for).reshape(self.shape)

    def astype(self, dtype: Any, *_: Any, **__: Any) -> Any:
        """The same entries as another type."""
        return TracedArray.typed(self.objects, dtype)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, TracedArray):
            if index.dtype.kind == "b" and index.shape == self.shape and _symbolic(index):
                return MaskedEntries(self, index)
            index = index.plain()
        found = self.objects[_plain_index(index)]
        return TracedArray.of(found, self.stands_for) if isinstance(found, np.ndarray) else found

    def __setitem__(self, index: Any, value: Any) -> None:
        if isinstance(index, TracedArray):
            if index.dtype.kind == "b" and index.shape == self.shape and _symbolic(index):
                full = isinstance(value, MaskedEntries) and value.follows(index)
                if full or not np.ndim(value):
                    value = value.values.objects if full else objects_of(value)
                    value = _each(converter(self.stands_for))(value)
                    self.objects[...] = _each(pick)(index.objects, value, self.objects)
                    return
            index = index.plain()
        if isinstance(value, MaskedEntries):
            value = value.plain()
        places = _plain_index(index)
        if isinstance(value, Symbol):  # or NumPy would put the box into the array
            places = (*places, ...) if isinstance(places, tuple) else (places, ...)
        self.objects[places] = _each(converter(self.stands_for))(objects_of(value))

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        out = options.pop("out", None)
        if options.pop("where", True) is not True or method in ("at", "reduceat"):
            raise NotTraced(f"numpy.{ufunc.__name__} with where=, at or reduceat is not followed")
        dtype = options.pop("dtype", None)
        given = {} if dtype is None else {"dtype": dtype}
        symbolic = any(map(_symbolic, inputs))
        if not symbolic:
            plain = map(_decided, inputs)
            found: Any = _boxed(getattr(ufunc, method)(*plain, **options, **given))
        elif ufunc.signature is not None:
            found = getattr(ufunc, method)(*map(objects_of, inputs), **options)
            dtype = np.result_type(*(getattr(v, "dtype", type(v)) for v in inputs))
        elif method == "__call__":
            found = _each(ufunc)(*map(objects_of, inputs))
            dtype = _type(ufunc, inputs, **given)
        else:
            both = inputs if method == "outer" else inputs[:1]
            dtype = _type(getattr(ufunc, method), both, **given)
            adding = ufunc in (np.add, np.multiply)
            inputs = (inputs[0].astype(dtype), *inputs[1:]) if adding else inputs
            found = getattr(_each(ufunc), method)(*map(objects_of, inputs), **options)
        if symbolic:
            array = isinstance(found, np.ndarray)
            found = _finished(found, dtype, inputs) if array else apply(converter(dtype), found)
        if out is None:
            return found
        if not isinstance(out[0], TracedArray) and isinstance(found, TracedArray):
            if _symbolic(found):
                raise NotTraced("random numbers are written into an array that holds plain ones")
            found = found.plain()
        if symbolic and not np.can_cast(dtype, out[0].dtype, "same_kind"):
            raise TypeError(f"Cannot cast ufunc output from {dtype} to {out[0].dtype}")
        out[0][...] = found
        return out[0]

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        handler = _HANDLERS.get(function)
        if handler is not None:
            return handler(*args, **kwargs)
        if _symbolic([*args, *kwargs.values()]):
            with suppress(TypeError, AttributeError, ValueError):
                return super().__array_function__(function, types, args, kwargs)
        decided = {name: _decided(value) for name, value in kwargs.items()}
        return _boxed(function(*map(_decided, args), **decided))

    def __bool__(self) -> bool:
        return bool(self.plain())

    def tolist(self) -> Any:
        """The entries as nested lists."""
        return _each(to_item)(self.objects).tolist()

    def clip(self, low: Any = None, high: Any = None, **_: Any) -> Any:  # type: ignore[override]
        """``numpy.clip`` of the array."""
        return _clip(self, low, high)

    def round(self, decimals: int = 0, **_: Any) -> Any:  # type: ignore[override]
        """``numpy.round`` of the array."""
        return _round(self, decimals)

    def copy(self, *_: Any, **__: Any) -> TracedArray:
        """A copy of the array."""
        return TracedArray.of(self.objects.copy(), self.stands_for)

    def nonzero(self) -> Any:
        """Where entries are not zero, on which the path decides."""
        return _boxed(self.plain().nonzero())

    def view(self, *kind: Any) -> Any:  # type: ignore[override]
        """Another view; NotTraced for one of the bytes as another type."""
        if kind and not (isinstance(kind[0], type) and issubclass(kind[0], np.ndarray)):
            raise NotTraced("the bytes of an array are read as another type")
        return super().view(*kind)

    def tobytes(self, *_: Any) -> bytes:
        """The bytes of the array on which the path decides."""
        return bytes(self.plain().tobytes())


class MaskedEntries(np.lib.mixins.NDArrayOperatorsMixin):
    """``array[mask]`` where the mask depends on coins: what replaces it element by element.

    Anything but element-wise work with plain numbers makes the path decide on the mask.
    """

    def __init__(self, values: TracedArray, mask: TracedArray) -> None:
        self.values, self.mask = values.copy(), mask.copy()

    def follows(self, mask: TracedArray) -> bool:
        """Whether a mask selects the same entries."""
        pairs = zip(self.mask.objects.flat, mask.objects.flat, strict=True)
        return self.mask.shape == mask.shape and all(a is b for a, b in pairs)

    def plain(self) -> Any:
        """The selected entries, once the path has decided on the mask."""
        return self.values[self.mask.plain()]

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        picked = [value for value in inputs if isinstance(value, MaskedEntries)]
        numbers = all(isinstance(v, MaskedEntries) or not np.ndim(v) for v in inputs)
        numbers = numbers and all(selection.follows(self.mask) for selection in picked)
        if method == "__call__" and not options and numbers:
            entries = (v.values if isinstance(v, MaskedEntries) else v for v in inputs)
            return MaskedEntries(ufunc(*entries), self.mask)
        if method == "__call__" and options == {"out": (self,)}:  # array[mask] += ...
            return getattr(ufunc, method)(*inputs)
        bare = (v.plain() if isinstance(v, MaskedEntries) else v for v in inputs)
        return getattr(ufunc, method)(*bare, **options)

    def astype(self, dtype: Any, **_: Any) -> MaskedEntries:
        """The same entries as another type."""
        return MaskedEntries(self.values.astype(dtype), self.mask)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.asarray(self.plain(), dtype=dtype)

    def __len__(self) -> int:
        return len(self.plain())

    def __getattr__(self, name: str) -> Any:
        return getattr(self.plain(), name)

    def __getitem__(self, index: Any) -> Any:
        return self.plain()[index]


def elementwise(ufunc: np.ufunc, *inputs: Any) -> Any:
    """``ufunc`` of arrays and symbols, entry by entry."""
    return _finished(_each(ufunc)(*map(objects_of, inputs)), _type(ufunc, inputs), inputs)


def of_symbols(function: Any, args: Any, kwargs: Any) -> Any:
    """A NumPy function of symbols, as of arrays without dimensions."""

    def whole(value: Any) -> Any:
        return TracedArray.of(objects_of(value), float) if isinstance(value, Symbol) else value

    found = function(*map(whole, args), **{name: whole(value) for name, value in kwargs.items()})
    single = isinstance(found, TracedArray) and not found.ndim
    return found.objects[()] if single else found


def _each(function: Callable[..., Any]) -> Any:
    """``function``, applied entry by entry to arrays of objects."""
    arity = getattr(function, "nin", None) or (3 if function is pick else 1)
    return np.frompyfunc(partial(apply, function), arity, 1)


def objects_of(value: Any) -> Any:
    """An array as one of objects, a symbol as one without dimensions; a number as it is."""
    if isinstance(value, TracedArray):
        return value.objects
    if isinstance(value, MaskedEntries):
        return objects_of(value.plain())
    symbol = isinstance(value, Symbol)
    array = np.empty((), object) if symbol else np.asarray(value)
    if not (symbol or array.ndim):
        return value
    # Each entry is the number of NumPy that it is.
    objects = np.empty(array.shape, dtype=object)
    for place in np.ndindex(array.shape):
        objects[place] = value if symbol else array[place]
    return objects


def _type(function: Callable[..., Any], inputs: Any, **options: Any) -> Any:
    """The type that NumPy itself gives, or its TypeError."""

    def typical(value: Any) -> Any:
        array = isinstance(value, np.ndarray)
        return np.ones(value.ndim and 1, value.dtype) if array else _typical(value)

    with np.errstate(all="ignore"):
        return np.asarray(function(*map(typical, inputs), **options)).dtype


def _finished(objects: Any, dtype: Any, inputs: Any) -> Any:
    """What was made of ``inputs``: a plain array where the path decides on all at once."""
    array = TracedArray.typed(objects, dtype)
    if not _symbolic(array):
        entries = (e for v in inputs if isinstance(v, TracedArray) for e in v.objects.flat)
        symbol = next((entry for entry in entries if isinstance(entry, Symbol)), None)
        if symbol is not None and symbol.path.eager:
            return array.plain()
    return array


def _symbolic(value: Any) -> bool:
    """Whether an open coin has a say in a value."""
    if isinstance(value, TracedArray):
        return any(isinstance(entry, Symbol) for entry in value.objects.ravel())
    if isinstance(value, (list, tuple)):
        return any(map(_symbolic, value))
    return isinstance(value, (Symbol, MaskedEntries))


def _plain_index(index: Any) -> Any:
    if isinstance(index, tuple):
        return tuple(map(_plain_index, index))
    return index.plain() if isinstance(index, (TracedArray, Symbol)) else index


def _boxed(found: Any) -> Any:
    """Plain arrays as such that may hold symbols later on."""
    if isinstance(found, tuple):
        return tuple(map(_boxed, found))
    plain = isinstance(found, np.ndarray) and found.ndim and not isinstance(found, TracedArray)
    return TracedArray.of(found, found.dtype) if plain else found


def _decided(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(map(_decided, value))
    return value.plain() if isinstance(value, (TracedArray, MaskedEntries, Symbol)) else value


def _where(condition: Any, a: Any = None, b: Any = None) -> Any:
    if a is None and b is None:
        return _boxed(_decided(condition).nonzero())
    picked = _each(pick)(objects_of(condition), objects_of(a), objects_of(b))
    kind = _type(np.where, (np.ones(1, bool), a, b))
    return _finished(picked, kind, (condition, a, b))


def _clip(array: Any, low: Any = None, high: Any = None, **options: Any) -> Any:
    low, high = options.get("a_min", low), options.get("a_max", high)
    low, high = options.get("min", low), options.get("max", high)
    found = array
    if low is not None:
        found = np.maximum(found, low)
    return found if high is None else np.minimum(found, high)


def _round(array: Any, decimals: int = 0, **_: Any) -> Any:
    digits = int(decimals)
    rounded = np.frompyfunc(lambda entry: apply(np.round, entry, digits), 1, 1)
    return TracedArray.typed(rounded(objects_of(array)), array.dtype)


_HANDLERS: dict[Any, Callable[..., Any]] = {
    np.where: _where,
    np.clip: _clip,
    np.round: _round,
    np.around: _round,
    np.copy: lambda array, *_, **__: array.copy(),
}
Symbol.of_symbols, Symbol.elementwise = of_symbols, elementwise


def _typical(entry: Any) -> Any:
    """A plain number of the type of an entry."""
    value = entry.pieces()[0][1] if isinstance(entry, Symbol) else entry
    return 1.0 if isinstance(value, Line) else value


def _nested(value: Any) -> Any:
    """Nested lists of objects, in the place of arrays too."""
    if isinstance(value, (list, tuple)):
        return [_nested(entry) for entry in value]
    return objects_of(value).tolist() if isinstance(value, np.ndarray) else value


def _constructor(function: Callable[..., Any], eager: bool) -> Callable[..., Any]:
    """A maker of arrays, which may hold symbols later on unless these are decided as drawn."""

    def make(*args: Any, **kwargs: Any) -> Any:
        given = args[0] if args else None
        if function in (np.array, np.asarray):
            dtype = kwargs.get("dtype", args[1] if len(args) > 1 else None)
            if isinstance(given, TracedArray):
                copied = given.copy() if function is np.array else given
                return copied if dtype is None else copied.astype(dtype)
            if isinstance(given, (list, tuple, Symbol)):
                single = isinstance(given, Symbol)
                objects = objects_of(given) if single else np.array(_nested(given), dtype=object)
                if any(isinstance(entry, Symbol) for entry in objects.ravel()):
                    kind = np.array([_typical(entry) for entry in objects.ravel()]).dtype
                    return TracedArray.typed(objects, kind if dtype is None else dtype)
        made = function(*args, **kwargs)
        if isinstance(made, np.ndarray) and made.dtype.kind in "biufU" and not eager:
            return TracedArray.typed(made.astype(object), made.dtype)
        return made

    return make


def makers(eager: bool) -> dict[int, Any]:
    """Functions of symbols in place of those that make plain numbers or arrays, by identity."""

    def lazy(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *arguments, **named: (
            function(*arguments, **named) if named else apply(function, *arguments)
        )

    found = {id(f): _constructor(f, eager) for f in known.CONSTRUCTORS.values()}
    return found | {id(f): lazy(f) for f in (float, int, *known.MATH.values())}
