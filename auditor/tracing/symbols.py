"""Symbols: values of traced code that depend on random draws which are not fixed yet.

A ``Symbol`` lists its possible values. Each is a concrete object, or an ``AffineNoise`` of one real
draw, with the sets of values of the draws (cells) that lead to it. Functions are applied to each
possible value. If the code needs a concrete object, such as a condition or an index, the execution
path fixes one value.
"""

from __future__ import annotations

import math
import numbers
import operator
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import numpy as np

from fedrec_auditor.auditor.tracing.affine_noise import (
    AffineNoise,
    ConditionalValue,
    UnfixedDrawError,
    ValuesByDraw,
    apply_to_noise,
    make_cast,
    to_scalar,
)
from fedrec_auditor.auditor.tracing.paths import ExecutionPath, NotTraced, PathTooRare

_MAX_PIECES = 1024
# Steps of the interpreter that are counted per possible value of a symbol.
_STEPS = 10


class Symbol:
    """A value that depends on random draws of one execution path.

    - ``path``: the execution path.
    - ``call_numpy``: calls a NumPy function with symbols among its arguments; set by ``arrays``.
    - ``call_ufunc``: applies a NumPy ufunc to arrays and symbols, by entry; set by ``arrays``.
    """

    __slots__ = ("_known", "_pieces", "path")
    __array_priority__ = 1000.0
    # Set by the module ``arrays``: NumPy functions of symbols, and ufuncs of arrays and symbols.
    call_numpy: ClassVar[Callable[..., Any]]
    call_ufunc: ClassVar[Callable[..., Any]]

    def __init__(self, path: ExecutionPath, pieces: list[ConditionalValue]) -> None:
        self.path, self._pieces = path, pieces
        self._known = path.changes

    def list_values(self) -> list[ConditionalValue]:
        """Returns the possible values of this symbol on its execution path, as pairs (cells,
        value).

        ``cells`` gives for each random draw the set of its values that leads to ``value``. Raises
        NotTraced if a draw of this symbol is already part of a sum or a seed.
        """
        if self._known == self.path.changes:
            return self._pieces
        limits, live = self.path.limits, []
        for cells, value in self._pieces:
            confined = {}
            for source, cell in cells.items():
                if source in self.path.used_up:
                    raise NotTraced("a draw is used again after use in a sum of draws or a seed")
                kept = source.intersect_cells(cell, limits[source]) if source in limits else cell
                if not kept:
                    break
                confined[source] = kept
            else:
                live.append((confined, value))
        self._pieces, self._known = live, self.path.changes
        return live

    def fix_value(self) -> Any:
        """Restricts the execution path to one possible value of this symbol, and returns the value.

        Usually the result is a concrete object. For noise (``AffineNoise``, a continuous random
        number), it is a symbol with this noise as its only possible value.
        """
        live = self.list_values()
        cells, value = live[self.path.take_option(len(live)) if len(live) > 1 else 0]
        self.path.restrict_draws(cells)
        return Symbol(self.path, [(cells, value)]) if isinstance(value, AffineNoise) else value

    def to_concrete(self) -> Any:
        """Restricts the execution path to one possible value, and returns this concrete object.

        Raises NotTraced if the value is noise (``AffineNoise``), a continuous random number.
        """
        value = self.fix_value()
        if isinstance(value, Symbol):
            raise NotTraced("the code uses continuous noise where tracing needs a fixed number")
        return value

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name == "item":
            return lambda: apply_to_values(to_scalar, self)
        if name == "copy":
            return lambda: self
        if name == "astype":
            return lambda kind: apply_to_values(make_cast(kind), self)
        return getattr(self.to_concrete(), name)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return Symbol.call_numpy(function, args, kwargs)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        if method != "__call__" or options:
            raise NotTraced(f"tracing supports numpy.{ufunc.__name__}(draw) only as a plain call")
        if any(isinstance(value, np.ndarray) and value.ndim for value in inputs):
            return Symbol.call_ufunc(ufunc, *inputs)
        return apply_to_values(ufunc, *inputs)


numbers.Real.register(Symbol)


def apply_to_values(function: Callable[..., Any], *arguments: Any) -> Any:
    """Returns ``function(*arguments)``, where arguments may be symbols (values that depend on
    draws).

    The function is applied to each combination of possible values. The result is a symbol, or a
    concrete object if all combinations give the same result.
    """
    symbols = [argument for argument in arguments if isinstance(argument, Symbol)]
    if not symbols:
        return function(*arguments)
    path = symbols[0].path
    together = combine_values(arguments, _MAX_PIECES)
    path.budget.spend(_STEPS * (1 + len(together) if together else _MAX_PIECES))
    if together is None:
        return apply_to_values(function, *(fix_symbol(argument) for argument in arguments))
    results: list[ConditionalValue] = []
    for cells, values in together:
        if any(isinstance(value, AffineNoise) for value in values):
            try:
                results += apply_to_noise(path, function, cells, values)
            except UnfixedDrawError as noise:
                path.fix_geometric_draw(noise.source)
                return apply_to_values(function, *arguments)
            continue
        try:
            results.append((cells, function(*values)))
        except (NotTraced, PathTooRare):
            raise
        except Exception:  # the function fails for this value, so that the path fixes a value
            return function(*(fix_symbol(argument) for argument in arguments))
    merged = _merge(results)
    symbol = Symbol(path, merged)
    if len(merged) == 1 and not isinstance(merged[0][1], AffineNoise):
        return merged[0][1]
    return symbol.fix_value() if path.eager else symbol


# One combination of the arguments' values: (set of values of each draw that leads to it, values).
ConditionalTuple = tuple[ValuesByDraw, tuple[Any, ...]]


def combine_values(arguments: Iterable[Any], max_size: int) -> list[ConditionalTuple] | None:
    """Returns the possible combinations of values of ``arguments``, as pairs (cells, values).

    An argument may be a symbol (a value that depends on random draws). ``cells`` gives for each
    draw the set of its values that leads to ``values``. The result is None if there are more than
    ``max_size`` pairs.
    """
    together: list[ConditionalTuple] = [({}, ())]
    for argument in arguments:
        pieces = argument.list_values() if isinstance(argument, Symbol) else [({}, argument)]
        together = [
            (cells, (*values, value))
            for known, values in together
            for more, value in pieces
            if (cells := _intersect(known, more)) is not None
        ]
        if len(together) > max_size:
            return None
    return together


def fix_symbol(value: Any) -> Any:
    """Fixes a symbol (a value that depends on random draws) on its path; returns the fixed value.

    Usually the result is a concrete object. For noise (``AffineNoise``), it is a symbol with this
    single value. Values other than symbols are returned unchanged.
    """
    return value.fix_value() if isinstance(value, Symbol) else value


def _intersect(one: ValuesByDraw, other: ValuesByDraw) -> ValuesByDraw | None:
    """Returns the intersection of the sets (cells) to which two mappings restrict each random draw.

    The result is None if the intersection is empty for a draw.
    """
    cells = dict(one)
    for source, cell in other.items():
        if source in cells:
            cell = source.intersect_cells(cells[source], cell)
            if not cell:
                return None
        cells[source] = cell
    return cells


def _merge(pieces: list[ConditionalValue]) -> list[ConditionalValue]:
    """Joins equal possible values whose cells (sets of values of draws) differ in one draw only."""
    for source in {source: None for cells, _ in pieces for source in cells}:
        groups: dict[Any, ConditionalValue] = {}
        for cells, value in pieces:
            rest = frozenset((s, cell) for s, cell in cells.items() if s is not source)
            key = (_make_key(value), source in cells, rest)
            if key in groups and source in cells:
                known = groups[key][0]
                union = source.unite_cells(known[source], cells[source])
                groups[key] = ({**known, source: union}, value)
            else:
                groups[key] = (cells, value)
        pieces = list(groups.values())
        if len({_make_key(value) for _, value in pieces}) == 1 and len(pieces) == 1:
            break
    return pieces


def _make_key(value: Any) -> Any:
    if isinstance(value, AffineNoise):
        return value
    try:
        hash(value)
    except TypeError:
        return id(value)
    return type(value), value


def _make_method(function: Callable[..., Any], *, swapped: bool = False) -> Callable[..., Any]:
    def method(self: Symbol, *others: Any) -> Any:
        if any(isinstance(other, np.ndarray) and other.ndim for other in others):
            return NotImplemented
        return apply_to_values(function, *((*others, self) if swapped else (self, *others)))

    return method


def _make_plain_method(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, *how: function(self.to_concrete(), *how)


_PLAIN: tuple[Any, ...] = bool, int, float, hash, str, repr, format, operator.index
_UNARY: tuple[Any, ...] = math.floor, math.ceil, math.trunc, round
_COMPARED = "lt le gt ge eq ne neg pos abs invert"
_BINARY = "add sub mul truediv floordiv mod pow and or xor lshift rshift"
for _function in _PLAIN:
    setattr(Symbol, f"__{_function.__name__}__", _make_plain_method(_function))
for _function in _UNARY:
    setattr(Symbol, f"__{_function.__name__}__", _make_method(_function))
for _name in f"{_COMPARED} {_BINARY}".split():
    setattr(Symbol, f"__{_name}__", _make_method(getattr(operator, f"__{_name}__")))
for _name in _BINARY.split():
    setattr(Symbol, f"__r{_name}__", _make_method(getattr(operator, f"__{_name}__"), swapped=True))
