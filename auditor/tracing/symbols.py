"""Values that depend on coins nobody has looked at yet.

A ``Symbol`` lists its values by cells of the sources it depends on: plain objects, or ``Line``,
an affine function of one real source. Functions are applied value by value; a comparison of a line
splits its cell; who needs a plain object (``if``, an index) makes the path decide.
"""

from __future__ import annotations

import math
import numbers
import operator
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from fedrec_auditor.auditor.tracing.paths import LeftOut, NotTraced, Path
from fedrec_auditor.auditor.tracing.sources import Real, Source

Cells = dict[Source, Any]
Piece = tuple[Cells, Any]

_MOST_PIECES = 1024
_MOST_STEPS = 256
SEED = "integers() as a seed"
# Steps of the interpreter that a value of a symbol costs.
_STEPS = 10
_HALF = Fraction(1, 2)


@dataclass(frozen=True, slots=True)
class Plain:
    """A real source as it is drawn."""

    source: Real

    def at(self, value: Any) -> Any:
        """The variable where the source has this value."""
        return value

    def below(self, cell: Any, threshold: Any, strict: bool) -> tuple[Any, Any]:
        """The parts of a cell where the variable is below (at most) a threshold, and the rest."""
        if self.source.lattice:
            threshold = math.ceil(threshold) - _HALF if strict else math.floor(threshold) + _HALF
        return self.source.below(cell, threshold)


@dataclass(frozen=True, slots=True)
class Log:
    """log(slope u + shift) of a uniform source u."""

    source: Real
    slope: Fraction
    shift: Fraction

    def at(self, value: Any) -> Any:
        """The variable where the source has this value."""
        inner = float(self.slope) * value + float(self.shift)
        return math.log(inner) if inner > 0 else -math.inf

    def below(self, cell: Any, threshold: Any, strict: bool) -> tuple[Any, Any]:
        """The parts of a cell where the variable is below a threshold, and the rest."""
        inner = math.exp(min(float(threshold), 700.0))
        low, high = self.source.below(cell, (Fraction(inner) - self.shift) / self.slope)
        return (low, high) if self.slope > 0 else (high, low)


@dataclass(frozen=True, slots=True)
class Floor:
    """The whole part of a line."""

    line: Line

    @property
    def source(self) -> Real:
        """The source of the line."""
        return self.line.variable.source

    def at(self, value: Any) -> Any:
        """The variable where the source has this value."""
        return math.floor(self.line.at(value))

    def below(self, cell: Any, threshold: Any, strict: bool) -> tuple[Any, Any]:
        """The parts of a cell where the variable is below (at most) a threshold, and the rest."""
        whole = math.ceil(threshold) if strict else math.floor(threshold) + 1
        return self.line.below(cell, Fraction(whole))


@dataclass(frozen=True, slots=True)
class Line:
    """coefficient x variable + constant, in exact arithmetic; the coefficient is not 0."""

    coefficient: Fraction
    constant: Fraction
    variable: Plain | Log | Floor

    @property
    def lattice(self) -> bool:
        """Whether values are a constant apart."""
        return isinstance(self.variable, Floor) or self.variable.source.lattice

    def at(self, value: Any) -> float:
        """The value where the source has this one."""
        return float(self.coefficient) * float(self.variable.at(value)) + float(self.constant)

    def below(self, cell: Any, threshold: Any, strict: bool = True) -> tuple[Any, Any]:
        """The parts of a cell where the line is below (at most) a threshold, and the rest."""
        if math.isinf(threshold):
            empty = cell[:0]
            return (cell, empty) if threshold > 0 else (empty, cell)
        crossing = (threshold - self.constant) / self.coefficient
        if self.coefficient > 0:
            return self.variable.below(cell, crossing, strict)
        rest, part = self.variable.below(cell, crossing, not strict)
        return part, rest


class Symbol:
    """A value that depends on sources of one path: its ``pieces`` are (cells, value)."""

    __slots__ = ("_known", "_pieces", "path")
    __array_priority__ = 1000.0
    # What arrays add: a function of symbols without arrays, and of arrays and symbols.
    of_symbols: ClassVar[Callable[..., Any]]
    elementwise: ClassVar[Callable[..., Any]]

    def __init__(self, path: Path, pieces: list[Piece]) -> None:
        self.path, self._pieces = path, pieces
        self._known = path.changes

    def pieces(self) -> list[Piece]:
        """The pieces that the path still allows, confined to it."""
        if self._known == self.path.changes:
            return self._pieces
        limits, live = self.path.limits, []
        for cells, value in self._pieces:
            confined = {}
            for source, cell in cells.items():
                if source in self.path.used_up:
                    raise NotTraced("noise that another draw was made of is used again by itself")
                kept = source.meet(cell, limits[source]) if source in limits else cell
                if not kept:
                    break
                confined[source] = kept
            else:
                live.append((confined, value))
        self._pieces, self._known = live, self.path.changes
        return live

    def settled(self) -> Any:
        """One of its values, on which the path decides: plain, or a symbol of one line."""
        live = self.pieces()
        cells, value = live[self.path.decide(len(live)) if len(live) > 1 else 0]
        self.path.confine(cells)
        return Symbol(self.path, [(cells, value)]) if isinstance(value, Line) else value

    def plain(self) -> Any:
        """One of its values, as a plain object; NotTraced where noise has a density."""
        value = self.settled()
        if isinstance(value, Symbol):
            raise NotTraced("noise is used as a plain number, in a way that is not followed")
        return value

    def __bool__(self) -> bool:
        return bool(self.plain())

    def __index__(self) -> int:
        return operator.index(self.plain())

    def __int__(self) -> int:
        return int(self.plain())

    def __float__(self) -> float:
        return float(self.plain())

    def __hash__(self) -> int:
        return hash(self.plain())

    def __str__(self) -> str:
        return str(self.plain())

    def __repr__(self) -> str:
        return repr(self.plain())

    def __format__(self, how: str) -> str:
        return format(self.plain(), how)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name == "item":
            return lambda: apply(to_item, self)
        if name == "copy":
            return lambda: self
        if name == "astype":
            return lambda kind: apply(converter(kind), self)
        return getattr(self.plain(), name)

    def __round__(self, digits: int | None = None) -> Any:
        return apply(round, self) if digits is None else apply(round, self, digits)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return Symbol.of_symbols(function, args, kwargs)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        if method != "__call__" or options:
            raise NotTraced(f"numpy.{ufunc.__name__}.{method} of a random number is not followed")
        if any(isinstance(value, np.ndarray) and value.ndim for value in inputs):
            return Symbol.elementwise(ufunc, *inputs)
        return apply(ufunc, *inputs)


numbers.Real.register(Symbol)


def apply(function: Callable[..., Any], *arguments: Any) -> Any:
    """``function`` of the arguments, of which some may be symbols; plain where all values agree."""
    symbols = [argument for argument in arguments if isinstance(argument, Symbol)]
    if not symbols:
        return function(*arguments)
    path = symbols[0].path
    together = joined(arguments, _MOST_PIECES)
    path.budget.spend(_STEPS * (1 + len(together) if together else _MOST_PIECES))
    if together is None:
        return apply(function, *(settled(argument) for argument in arguments))
    results: list[Piece] = []
    for cells, values in together:
        if any(isinstance(value, Line) for value in values):
            try:
                results += _of_lines(path, function, cells, values)
            except _Undecided as noise:
                path.decide_whole(noise.source)
                return apply(function, *arguments)
            continue
        try:
            results.append((cells, function(*values)))
        except (NotTraced, LeftOut):
            raise
        except Exception:  # on this piece alone: the path decides which one it is on
            return function(*(settled(argument) for argument in arguments))
    merged = _merged(results)
    found = Symbol(path, merged)
    if len(merged) == 1 and not isinstance(merged[0][1], Line):
        return merged[0][1]
    return found.settled() if path.eager else found


def joined(arguments: Iterable[Any], most: int) -> list[tuple[Cells, tuple[Any, ...]]] | None:
    """The values that arguments have together, by cells; None where they are more than ``most``."""
    together: list[tuple[Cells, tuple[Any, ...]]] = [({}, ())]
    for argument in arguments:
        pieces = argument.pieces() if isinstance(argument, Symbol) else [({}, argument)]
        together = [
            (cells, (*values, value))
            for known, values in together
            for more, value in pieces
            if (cells := _meet(known, more)) is not None
        ]
        if len(together) > most:
            return None
    return together


def settled(value: Any) -> Any:
    """A plain value, or a symbol of one line, on which the path decides."""
    return value.settled() if isinstance(value, Symbol) else value


def _meet(one: Cells, other: Cells) -> Cells | None:
    """The cells of both; None where they share nothing."""
    cells = dict(one)
    for source, cell in other.items():
        if source in cells:
            cell = source.meet(cells[source], cell)
            if not cell:
                return None
        cells[source] = cell
    return cells


def _merged(pieces: list[Piece]) -> list[Piece]:
    """Pieces of one value, joined where their cells differ in one source."""
    for source in {source: None for cells, _ in pieces for source in cells}:
        groups: dict[Any, Piece] = {}
        for cells, value in pieces:
            rest = frozenset((s, cell) for s, cell in cells.items() if s is not source)
            key = (_key(value), source in cells, rest)
            if key in groups and source in cells:
                known = groups[key][0]
                joined = source.join(known[source], cells[source])
                groups[key] = ({**known, source: joined}, value)
            else:
                groups[key] = (cells, value)
        pieces = list(groups.values())
        if len({_key(value) for _, value in pieces}) == 1 and len(pieces) == 1:
            break
    return pieces


def _key(value: Any) -> Any:
    if isinstance(value, Line):
        return value
    try:
        hash(value)
    except TypeError:
        return id(value)
    return type(value), value


def exact(value: Any) -> Any:
    """A number as a fraction, an infinite one as it is; NotTraced for anything else."""
    try:
        return Fraction(value.item() if isinstance(value, (np.generic, np.ndarray)) else value)
    except OverflowError:
        return float(value)
    except (TypeError, ValueError) as error:
        raise NotTraced(f"noise meets {value!r}, which is no number") from error


def converter(kind: Any) -> Callable[[Any], Any]:
    """What ``astype(kind)`` does to one value."""
    dtype = np.dtype(kind)

    def convert(value: Any) -> Any:
        return np.array(value).astype(dtype)[()]

    return dtype.type if dtype.type in _RULES else convert


def to_int(value: Any) -> Any:
    """A whole number, towards 0."""
    return int(value)


def to_float(value: Any) -> Any:
    """A real number."""
    return float(value)


def to_item(value: Any) -> Any:
    """A number of NumPy as Python's own."""
    return value.item() if isinstance(value, np.generic) else value


def pick(condition: Any, a: Any, b: Any) -> Any:
    """What ``numpy.where`` does to one entry."""
    return a if condition else b


def _of_lines(
    path: Path, function: Callable[..., Any], cells: Cells, values: tuple[Any, ...]
) -> list[Piece]:
    """The pieces of a function of values of which some are lines."""
    if function not in _OF_SEEDS and any(map(is_seed, values)):
        raise NotTraced("whole numbers of more than 2^40 values are followed as seeds alone")
    rule = _RULES.get(function)
    if rule is None:
        name = getattr(function, "__name__", str(function))
        raise NotTraced(f"{name} of noise that has a density is not followed")
    kind = _KINDS.get(function, np.bool_ if isinstance(function, np.ufunc) else None)
    return [
        (part, value if kind is None or isinstance(value, Line) else _as(kind, value))
        for part, value in rule(path, cells, *values)
    ]


def is_seed(value: Any) -> bool:
    """Whether a value is a whole number of a range too large for any other use."""
    return isinstance(value, Line) and value.variable.source.name == SEED


def _as(kind: Any, value: Any) -> Any:
    """A plain value as the type that a function gives; only truth values become ``numpy.bool_``."""
    return value if kind is np.bool_ and not isinstance(value, bool) else kind(value)


Rule = Callable[..., Iterator[Piece]]


class _Undecided(Exception):
    """Of two noises in one place, the path has to decide on the value of ``source``."""

    def __init__(self, source: Real) -> None:
        self.source = source


def _decided(line: Line, cells: Cells) -> Fraction | None:
    """The value of a line of whole numbers of which the path has decided on one."""
    source = line.variable.source
    low, high = (math.ceil(end) if math.isfinite(end) else end for end in cells[source][0])
    if not (isinstance(line.variable, Plain) and source.lattice and high - low == 1):
        return None
    return line.coefficient * low + line.constant if len(cells[source]) == 1 else None


def _add(path: Path, cells: Cells, a: Any, b: Any) -> Iterator[Piece]:
    if isinstance(a, Line) and isinstance(b, Line):
        first, second = _decided(a, cells), _decided(b, cells)
        if a.variable == b.variable or (first is None and second is None):
            yield _sum(path, cells, a, b)
            return
        a, b = (a, second) if first is None else (first, b)
    line, other = (a, exact(b)) if isinstance(a, Line) else (b, exact(a))
    if math.isinf(other):
        yield cells, other
    else:
        yield cells, replace(line, constant=line.constant + other)


# What a difference of two draws of a family is.
_TWICE = {"geometric": "two-sided geometric", "exponential": "laplace"}


def _sum(path: Path, cells: Cells, a: Line, b: Line) -> Piece:
    """The sum of two lines: of one variable, or of plain normal or geometric sources."""
    constant = a.constant + b.constant
    if a.variable == b.variable:
        coefficient = a.coefficient + b.coefficient
        return cells, replace(a, coefficient=coefficient, constant=constant) if coefficient else (
            float(constant)
        )
    one, two = a.variable.source, b.variable.source
    free = all(
        isinstance(line.variable, Plain)
        and cells[line.variable.source] == line.variable.source.whole
        and line.variable.source not in path.limits
        for line in (a, b)
    )
    if free and one.family == two.family == "normal":
        scale = math.hypot(a.coefficient, b.coefficient)
        total = Real("a sum of normal()", "normal")
        weights = float(a.coefficient) / scale, float(b.coefficient) / scale
    elif free and one.same(two) and one.family in _TWICE and a.coefficient == -b.coefficient:
        scale, weights = float(a.coefficient), (1.0, -1.0)
        total = Real(f"a difference of {one.name}", _TWICE[one.family], one.rate)
    else:
        for line in (a, b):
            noise = line.variable.source
            if isinstance(line.variable, Plain) and noise.lattice and not noise.count:
                raise _Undecided(noise)
        raise NotTraced("two noises are added, whose sum has no density that is known here")
    source = path.add_up(total, (one, weights[0]), (two, weights[1]))
    rest = {known: cell for known, cell in cells.items() if known not in (one, two)}
    line = Line(Fraction(scale), constant, Plain(source))  # type: ignore[arg-type]
    return {**rest, source: source.whole}, line


def _multiply(path: Path, cells: Cells, a: Any, b: Any) -> Iterator[Piece]:
    if isinstance(a, Line) and isinstance(b, Line):
        raise NotTraced("two noises are multiplied")
    line, other = (a, exact(b)) if isinstance(a, Line) else (b, exact(a))
    if math.isinf(other):
        raise NotTraced("noise is multiplied by an infinite number")
    if other == 0:
        yield cells, 0.0
    else:
        yield cells, _scaled(line, other)


def _scaled(line: Line, factor: Fraction) -> Line:
    return replace(line, coefficient=line.coefficient * factor, constant=line.constant * factor)


def _divide(path: Path, cells: Cells, a: Any, b: Any) -> Iterator[Piece]:
    if isinstance(b, Line):
        raise NotTraced("a number is divided by noise")
    other = exact(b)
    if other == 0 or math.isinf(other):
        raise NotTraced(f"noise is divided by {b!r}")
    yield cells, _scaled(a, 1 / other)


def _negative(path: Path, cells: Cells, a: Line) -> Iterator[Piece]:
    yield cells, _scaled(a, Fraction(-1))


def _subtract(path: Path, cells: Cells, a: Any, b: Any) -> Iterator[Piece]:
    minus = _scaled(b, Fraction(-1)) if isinstance(b, Line) else -exact(b)
    return _add(path, cells, a, minus)


def _split(cells: Cells, a: Any, b: Any, *, strict: bool) -> Iterator[Piece]:
    """Pieces on which a < b (or a <= b) is known; ties of real sources have probability 0."""
    if isinstance(a, Line) and isinstance(b, Line):
        if a.variable != b.variable:
            raise NotTraced("two noises are compared")
        coefficient = a.coefficient - b.coefficient
        constant = a.constant - b.constant
        if coefficient == 0:
            yield cells, constant < 0 or (constant == 0 and not strict)
            return
        line, threshold = replace(a, coefficient=coefficient, constant=constant), Fraction(0)
        true, false = line.below(cells[line.variable.source], threshold, strict)
    elif isinstance(a, Line):
        line = a
        true, false = a.below(cells[a.variable.source], exact(b), strict)
    else:
        line = b
        false, true = b.below(cells[b.variable.source], exact(a), not strict)
    for part, answer in ((true, True), (false, False)):
        if part:
            yield {**cells, line.variable.source: part}, answer


def _less(path: Path, cells: Cells, a: Any, b: Any) -> Iterator[Piece]:
    return _split(cells, a, b, strict=True)


def _less_equal(path: Path, cells: Cells, a: Any, b: Any) -> Iterator[Piece]:
    return _split(cells, a, b, strict=False)


def _greater(path: Path, cells: Cells, a: Any, b: Any) -> Iterator[Piece]:
    return _split(cells, b, a, strict=True)


def _greater_equal(path: Path, cells: Cells, a: Any, b: Any) -> Iterator[Piece]:
    return _split(cells, b, a, strict=False)


def _equal(path: Path, cells: Cells, a: Any, b: Any) -> Iterator[Piece]:
    for below, at_most in _split(cells, a, b, strict=False):
        if not at_most:
            yield below, False
            continue
        for part, less in _split(below, a, b, strict=True):
            yield part, not less


def _not_equal(path: Path, cells: Cells, a: Any, b: Any) -> Iterator[Piece]:
    for part, equal in _equal(path, cells, a, b):
        yield part, not equal


def _where(path: Path, cells: Cells, condition: Any, a: Any, b: Any) -> Iterator[Piece]:
    if isinstance(condition, Line):
        raise NotTraced("noise is used as a condition")
    yield cells, a if condition else b


def _minimum(path: Path, cells: Cells, a: Any, b: Any) -> Iterator[Piece]:
    for part, less in _split(cells, a, b, strict=True):
        yield part, a if less else b


def _maximum(path: Path, cells: Cells, a: Any, b: Any) -> Iterator[Piece]:
    for part, less in _split(cells, a, b, strict=True):
        yield part, b if less else a


def _clip(path: Path, cells: Cells, a: Any, low: Any, high: Any) -> Iterator[Piece]:
    for part, value in _maximum(path, cells, a, low) if low is not None else [(cells, a)]:
        if high is None or not isinstance(value, Line):
            yield part, value if high is None else min(value, high)
        else:
            yield from _minimum(path, part, value, high)


def _absolute(path: Path, cells: Cells, a: Line) -> Iterator[Piece]:
    for part, less in _split(cells, a, 0, strict=True):
        yield part, _scaled(a, Fraction(-1)) if less else a


def _sign(path: Path, cells: Cells, a: Line) -> Iterator[Piece]:
    for part, less in _split(cells, a, 0, strict=True):
        if less:
            yield part, -1.0
        else:
            for side, at_most in _split(part, a, 0, strict=False):
                yield side, 0.0 if at_most and a.lattice else 1.0


def _copysign(path: Path, cells: Cells, size: Any, a: Any) -> Iterator[Piece]:
    if isinstance(size, Line):
        for part, positive in _absolute(path, cells, size):
            yield part, positive if a >= 0 else _scaled(positive, Fraction(-1))
        return
    for part, less in _split(cells, a, 0, strict=True):
        yield part, -abs(size) if less else abs(size)


def _floor(path: Path, cells: Cells, a: Line) -> Iterator[Piece]:
    """Whole parts: of bounded noise one by one, of others as a lattice."""
    variable = a.variable
    if isinstance(variable, Floor) or variable.source.lattice:
        if a.coefficient.denominator == 1 and a.constant.denominator == 1:
            yield cells, a
            return
        raise NotTraced("noise is rounded twice")
    cell = cells[variable.source]
    ends = [float(a.variable.at(float(end))) for end in (cell[0][0], cell[-1][1])]
    low, high = sorted(float(a.coefficient) * end + float(a.constant) for end in ends)
    if not (math.isfinite(low) and math.isfinite(high) and high - low < _MOST_STEPS):
        yield cells, Line(Fraction(1), Fraction(0), Floor(a))
        return
    for whole in range(math.floor(low), math.ceil(high) + 1):
        part, cell = a.below(cell, Fraction(whole + 1))
        if part:
            yield {**cells, variable.source: part}, float(whole)


def _ceil(path: Path, cells: Cells, a: Line) -> Iterator[Piece]:
    for part, value in _floor(path, cells, _scaled(a, Fraction(-1))):
        yield part, _scaled(value, Fraction(-1)) if isinstance(value, Line) else -value


def _rint(path: Path, cells: Cells, a: Line) -> Iterator[Piece]:
    if a.lattice:
        return _floor(path, cells, a)
    return _floor(path, cells, replace(a, constant=a.constant + _HALF))


def _round(path: Path, cells: Cells, a: Line, digits: Any = 0) -> Iterator[Piece]:
    factor = Fraction(10) ** digits
    for part, value in _rint(path, cells, _scaled(a, factor)):
        yield part, _scaled(value, 1 / factor) if isinstance(value, Line) else value / float(factor)


def _trunc(path: Path, cells: Cells, a: Line) -> Iterator[Piece]:
    for part, less in _split(cells, a, 0, strict=True):
        yield from (_ceil if less else _floor)(path, part, a)


def _log(path: Path, cells: Cells, a: Line) -> Iterator[Piece]:
    variable = a.variable
    if not (isinstance(variable, Plain) and variable.source.family == "uniform"):
        raise NotTraced("the logarithm of noise that is not uniform is not followed")
    for part, positive in _split(cells, 0, a, strict=True):
        if positive:
            yield (
                part,
                Line(Fraction(1), Fraction(0), Log(variable.source, a.coefficient, a.constant)),
            )
        else:
            yield part, math.nan


def _log1p(path: Path, cells: Cells, a: Line) -> Iterator[Piece]:
    return _log(path, cells, replace(a, constant=a.constant + 1))


def _true(path: Path, cells: Cells, a: Line) -> Iterator[Piece]:
    return _not_equal(path, cells, a, 0)


def _same(path: Path, cells: Cells, a: Line) -> Iterator[Piece]:
    yield cells, a


def _always(answer: bool) -> Rule:
    def rule(path: Path, cells: Cells, a: Line) -> Iterator[Piece]:
        yield cells, answer

    return rule


_RULES: dict[Callable[..., Any], Rule] = {}
_FOLLOWED: dict[Rule, tuple[Any, ...]] = {
    _add: (np.add, operator.add),
    _subtract: (np.subtract, operator.sub),
    _multiply: (np.multiply, operator.mul),
    _divide: (np.true_divide, operator.truediv),
    _negative: (np.negative, operator.neg),
    _same: (np.positive, operator.pos, to_float, to_item, np.float64),
    _less: (np.less, operator.lt),
    _less_equal: (np.less_equal, operator.le),
    _greater: (np.greater, operator.gt),
    _greater_equal: (np.greater_equal, operator.ge),
    _equal: (np.equal, operator.eq),
    _not_equal: (np.not_equal, operator.ne),
    _minimum: (np.minimum, np.fmin),
    _maximum: (np.maximum, np.fmax),
    _clip: (np.clip,),
    _where: (pick,),
    _absolute: (np.absolute, np.fabs, operator.abs),
    _sign: (np.sign,),
    _copysign: (np.copysign, math.copysign),
    _floor: (np.floor, math.floor),
    _ceil: (np.ceil, math.ceil),
    _rint: (np.rint,),
    _round: (np.round, round),
    _trunc: (np.trunc, to_int, np.int64, math.trunc),
    _log: (np.log, math.log),
    _log1p: (np.log1p, math.log1p),
    _true: (np.bool_,),
    _always(True): (np.isfinite,),
    _always(False): (np.isnan, np.isinf),
}
for _rule, _functions in _FOLLOWED.items():
    _RULES.update(dict.fromkeys(_functions, _rule))
_OF_SEEDS = (to_int, to_item, np.int64, np.add, operator.add, np.multiply, operator.mul)
_KINDS: dict[Callable[..., Any], Any] = {
    **dict.fromkeys((to_int, math.floor, math.ceil, math.trunc), int),
    **{kind: kind for kind in (np.int64, np.float64, np.bool_)},
}


def _binary(name: str, function: Callable[..., Any]) -> None:
    def method(self: Symbol, other: Any) -> Any:
        if isinstance(other, np.ndarray) and other.ndim:
            return NotImplemented
        return apply(function, self, other)

    def reflected(self: Symbol, other: Any) -> Any:
        return apply(function, other, self)

    setattr(Symbol, f"__{name}__", method)
    setattr(Symbol, f"__r{name}__", reflected)


def _compared(name: str, function: Callable[..., Any]) -> None:
    setattr(Symbol, f"__{name}__", lambda self, *other: apply(function, self, *other))


for _name in ["lt", "le", "gt", "ge", "eq", "ne", "neg", "pos", "abs", "invert"]:
    _compared(_name, getattr(operator, f"__{_name}__"))
for _name in ["floor", "ceil", "trunc"]:
    _compared(_name, getattr(math, _name))
for _name in ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow"]:
    _binary(_name, getattr(operator, f"__{_name}__"))
for _name in ["and", "or", "xor", "lshift", "rshift"]:
    _binary(_name, getattr(operator, f"__{_name}__"))
