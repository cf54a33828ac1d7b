"""Noise as an affine function of one draw, and what functions make of it.

A rule says what a function gives. Its comparisons split the cell of the draw: a rule is run for
each combination of their answers.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from fedrec_auditor.auditor.tracing.paths import NotTraced, Path, Real, Source

Cells = dict[Source, Any]
Piece = tuple[Cells, Any]

SEED = "integers() as a seed"
_MOST_STEPS = 256
_HALF = Fraction(1, 2)


@dataclass(frozen=True, slots=True)
class Line:
    """coefficient x variable + constant, in exact arithmetic; the coefficient is not 0.

    The variable is the draw itself or, if there is an ``inner`` line, the ``function`` of that
    line: ``math.log`` (of a uniform draw) or ``math.floor``.
    """

    source: Real
    coefficient: Fraction = Fraction(1)
    constant: Fraction = Fraction(0)
    function: Callable[..., Any] | None = None
    inner: Line | None = None

    @property
    def variable(self) -> tuple[Any, ...]:
        """Key of the lines that differ by coefficients and constants alone."""
        return self.source, self.function, self.inner

    @property
    def lattice(self) -> bool:
        """Whether values are a constant apart."""
        return self.function is math.floor or self.source.lattice

    @property
    def is_seed(self) -> bool:
        """Whether it is a whole number of a range too large for any other use."""
        return self.source.name == SEED

    def at(self, value: Any) -> float:
        """The value of the line where the draw has this one."""
        if self.inner is not None and self.function is not None:
            inner = self.inner.at(value)
            value = -math.inf if self.function is math.log and inner <= 0 else self.function(inner)
        return float(self.coefficient) * float(value) + float(self.constant)

    def below(self, cell: Any, threshold: Any, strict: bool = True) -> tuple[Any, Any]:
        """The parts of a cell where the line is below (at most) a threshold, and the rest."""
        if math.isinf(threshold):
            return (cell, cell[:0]) if threshold > 0 else (cell[:0], cell)
        crossing = (threshold - self.constant) / self.coefficient
        strict ^= self.coefficient < 0
        if self.inner is not None and self.function is math.log:
            crossing = Fraction(math.exp(min(float(crossing), 700.0)))
            low, high = self.inner.below(cell, crossing)
        elif self.inner is not None:
            whole = math.ceil(crossing) if strict else math.floor(crossing) + 1
            low, high = self.inner.below(cell, Fraction(whole))
        else:
            if self.source.lattice:
                crossing = math.ceil(crossing) - _HALF if strict else math.floor(crossing) + _HALF
            low, high = self.source.below(cell, crossing)
        return (low, high) if self.coefficient > 0 else (high, low)

    def times(self, factor: Any) -> Line:
        """The line multiplied by a number other than 0."""
        factor = Fraction(factor)
        return replace(self, coefficient=self.coefficient * factor, constant=self.constant * factor)

    def plus(self, number: Any) -> Line:
        """The line with a number added."""
        return replace(self, constant=self.constant + number)

    def __neg__(self) -> Line:
        return self.times(-1)


def exact(value: Any) -> Any:
    """A number as a fraction, an infinite one as it is; NotTraced for anything else."""
    try:
        return Fraction(value.item() if isinstance(value, (np.generic, np.ndarray)) else value)
    except OverflowError:
        return float(value)
    except (TypeError, ValueError) as error:
        raise NotTraced(f"noise meets {value!r}, which is no number") from error


class Undecided(Exception):
    """The path has to decide on the value of ``source``, one of two noises in one place."""

    def __init__(self, source: Real) -> None:
        self.source = source


class Part:
    """A part of the cells on which every comparison of a rule has one answer.

    Comparisons have the ``answers`` given, and then True; ``others`` are the answers of parts
    still to be looked at.
    """

    def __init__(self, path: Path, cells: Cells, answers: list[bool]) -> None:
        self.path, self.cells = path, cells
        self.others: list[list[bool]] = []
        self._answers, self._asked = answers, 0

    def less(self, a: Any, b: Any, *, strict: bool = True) -> bool:
        """Whether a < b, or a <= b; ties of draws that have a density have probability 0."""
        if isinstance(a, Line) and isinstance(b, Line):
            if a.variable != b.variable:
                raise NotTraced("two noises are compared")
            coefficient, constant = a.coefficient - b.coefficient, a.constant - b.constant
            a = replace(a, coefficient=coefficient, constant=constant) if coefficient else constant
            b = Fraction(0)
        if isinstance(a, Line):
            source = a.source
            true, false = a.below(self.cells[source], exact(b), strict)
        elif isinstance(b, Line):
            source = b.source
            false, true = b.below(self.cells[source], exact(a), not strict)
        else:
            return bool(a < b if strict else a <= b)
        answer = bool(true)
        if true and false:
            if self._asked == len(self._answers):
                self.others.append([*self._answers, False])
                self._answers.append(True)
            answer = self._answers[self._asked]
            self._asked += 1
        self.cells = {**self.cells, source: true if answer else false}
        return answer


def of_lines(
    path: Path, function: Callable[..., Any], cells: Cells, values: tuple[Any, ...]
) -> Iterator[Piece]:
    """The pieces of a function of values of which some are lines."""
    seeds = any(isinstance(value, Line) and value.is_seed for value in values)
    if seeds and function not in _OF_SEEDS:
        raise NotTraced("whole numbers of more than 2^40 values are followed as seeds alone")
    rule = _RULES.get(function)
    if rule is None:
        name = getattr(function, "__name__", str(function))
        raise NotTraced(f"{name} of noise that has a density is not followed")
    kind = _KINDS.get(function, np.bool_ if isinstance(function, np.ufunc) else None)
    waiting: list[list[bool]] = [[]]
    while waiting:
        part = Part(path, cells, waiting.pop())
        value = rule(part, *values)
        waiting += part.others
        # Only truth values become ``numpy.bool_``.
        plain = isinstance(value, Line) or (kind is np.bool_ and not isinstance(value, bool))
        yield part.cells, value if plain or kind is None else kind(value)


def pick(condition: Any, a: Any, b: Any) -> Any:
    """Entry of ``numpy.where``."""
    return a if condition else b


def to_item(value: Any) -> Any:
    """A number of NumPy as Python's own."""
    return value.item() if isinstance(value, np.generic) else value


def converter(kind: Any) -> Callable[[Any], Any]:
    """A function that converts one value as ``astype(kind)`` does."""
    dtype = np.dtype(kind)

    def convert(value: Any) -> Any:
        return np.array(value).astype(dtype)[()]

    return dtype.type if dtype.type in _RULES else convert


def _decided(line: Line, cells: Cells) -> Fraction | None:
    """The value of a line of whole numbers of which the path has decided on one."""
    low, high = (math.ceil(e) if math.isfinite(e) else e for e in cells[line.source][0])
    if line.inner or not line.source.lattice or high - low != 1 or len(cells[line.source]) > 1:
        return None
    return Fraction(line.coefficient * low + line.constant)


def _add(part: Part, a: Any, b: Any) -> Any:
    if isinstance(a, Line) and isinstance(b, Line):
        first, second = _decided(a, part.cells), _decided(b, part.cells)
        if a.variable == b.variable or (first is None and second is None):
            return _sum(part, a, b)
        a, b = (a, second) if first is None else (first, b)
    line, number = (a, exact(b)) if isinstance(a, Line) else (b, exact(a))
    return number if math.isinf(number) else line.plus(number)


# The family of a difference of two draws.
_TWICE = {"geometric": "two-sided geometric", "exponential": "laplace"}


def _sum(part: Part, a: Line, b: Line) -> Any:
    """The sum of two lines: of one variable, or of plain normal or geometric draws."""
    constant = a.constant + b.constant
    if a.variable == b.variable:
        coefficient = a.coefficient + b.coefficient
        if not coefficient:
            return float(constant)
        return replace(a, coefficient=coefficient, constant=constant)
    one, two = a.source, b.source
    free = all(
        line.inner is None
        and part.cells[line.source] == line.source.whole
        and line.source not in part.path.limits
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
            if line.inner is None and line.source.lattice and not line.source.count:
                raise Undecided(line.source)
        raise NotTraced("two noises are added, whose sum has no density that is known here")
    source = part.path.add_up(total, (one, weights[0]), (two, weights[1]))
    kept = {known: cell for known, cell in part.cells.items() if known not in (one, two)}
    part.cells = {**kept, source: source.whole}
    return Line(source, Fraction(scale), constant)  # type: ignore[arg-type]


def _multiply(part: Part, a: Any, b: Any) -> Any:
    if isinstance(a, Line) and isinstance(b, Line):
        raise NotTraced("two noises are multiplied")
    line, number = (a, exact(b)) if isinstance(a, Line) else (b, exact(a))
    if math.isinf(number):
        raise NotTraced("noise is multiplied by an infinite number")
    return line.times(number) if number else 0.0


def _divide(part: Part, a: Any, b: Any) -> Any:
    if isinstance(b, Line):
        raise NotTraced("a number is divided by noise")
    number = exact(b)
    if number == 0 or math.isinf(number):
        raise NotTraced(f"noise is divided by {b!r}")
    return a.times(1 / number)


def _equal(part: Part, a: Any, b: Any) -> bool:
    return part.less(a, b, strict=False) and not part.less(a, b)


def _minimum(part: Part, a: Any, b: Any) -> Any:
    return a if part.less(a, b) else b


def _maximum(part: Part, a: Any, b: Any) -> Any:
    return b if part.less(a, b) else a


def _clip(part: Part, a: Any, low: Any, high: Any) -> Any:
    raised = a if low is None else _maximum(part, a, low)
    return raised if high is None else _minimum(part, raised, high)


def _where(part: Part, condition: Any, a: Any, b: Any) -> Any:
    if isinstance(condition, Line):
        raise NotTraced("noise is used as a condition")
    return a if condition else b


def _absolute(part: Part, a: Any) -> Any:
    return -a if part.less(a, 0) else a


def _sign(part: Part, a: Line) -> float:
    if part.less(a, 0):
        return -1.0
    return 0.0 if part.less(a, 0, strict=False) else 1.0


def _copysign(part: Part, size: Any, a: Any) -> Any:
    size = _absolute(part, size)
    return -size if part.less(a, 0) else size


def _floor(part: Part, a: Line) -> Any:
    """Whole parts: of bounded noise one by one, of others as a lattice."""
    if a.lattice:
        if a.coefficient.denominator == 1 and a.constant.denominator == 1:
            return a
        raise NotTraced("noise is rounded twice")
    cell = part.cells[a.source]
    low, high = sorted(a.at(float(end)) for end in (cell[0][0], cell[-1][1]))
    if not (math.isfinite(low) and math.isfinite(high) and high - low < _MOST_STEPS):
        return Line(a.source, function=math.floor, inner=a)
    whole, beyond = math.floor(low), math.ceil(high) + 1
    while beyond - whole > 1:
        middle = (whole + beyond) // 2
        whole, beyond = (whole, middle) if part.less(a, middle) else (middle, beyond)
    return float(whole)


def _ceil(part: Part, a: Line) -> Any:
    return -_floor(part, -a)


def _rint(part: Part, a: Line) -> Any:
    return _floor(part, a if a.lattice else a.plus(_HALF))


def _round(part: Part, a: Line, digits: Any = 0) -> Any:
    factor = Fraction(10) ** digits
    value = _rint(part, a.times(factor))
    return value.times(1 / factor) if isinstance(value, Line) else value / float(factor)


def _trunc(part: Part, a: Line) -> Any:
    return _ceil(part, a) if part.less(a, 0) else _floor(part, a)


def _log(part: Part, a: Line) -> Any:
    if a.inner is not None or a.source.family != "uniform":
        raise NotTraced("the logarithm of noise that is not uniform is not followed")
    return Line(a.source, function=math.log, inner=a) if part.less(0, a) else math.nan


_RULES: dict[Callable[..., Any], Callable[..., Any]] = {
    function: rule
    for rule, functions in (
        (_add, (np.add, operator.add)),
        (
            lambda part, a, b: _add(part, a, -b if isinstance(b, Line) else -exact(b)),
            (np.subtract, operator.sub),
        ),
        (_multiply, (np.multiply, operator.mul)),
        (_divide, (np.true_divide, operator.truediv)),
        (lambda part, a: -a, (np.negative, operator.neg)),
        (lambda part, a: a, (np.positive, operator.pos, float, to_item, np.float64)),
        (lambda part, a, b: part.less(a, b), (np.less, operator.lt)),
        (lambda part, a, b: part.less(a, b, strict=False), (np.less_equal, operator.le)),
        (lambda part, a, b: part.less(b, a), (np.greater, operator.gt)),
        (lambda part, a, b: part.less(b, a, strict=False), (np.greater_equal, operator.ge)),
        (_equal, (np.equal, operator.eq)),
        (lambda part, a, b: not _equal(part, a, b), (np.not_equal, operator.ne)),
        (lambda part, a: not _equal(part, a, 0), (np.bool_,)),
        (_minimum, (np.minimum, np.fmin)),
        (_maximum, (np.maximum, np.fmax)),
        (_clip, (np.clip,)),
        (_where, (pick,)),
        (_absolute, (np.absolute, np.fabs, operator.abs)),
        (_sign, (np.sign,)),
        (_copysign, (np.copysign, math.copysign)),
        (_floor, (np.floor, math.floor)),
        (_ceil, (np.ceil, math.ceil)),
        (_rint, (np.rint,)),
        (_round, (np.round, round)),
        (_trunc, (np.trunc, int, np.int64, math.trunc)),
        (_log, (np.log, math.log)),
        (lambda part, a: _log(part, a.plus(1)), (np.log1p, math.log1p)),
        (lambda part, a: True, (np.isfinite,)),
        (lambda part, a: False, (np.isnan, np.isinf)),
    )
    for function in functions
}
_OF_SEEDS = (int, to_item, np.int64, np.add, operator.add, np.multiply, operator.mul)
_KINDS: dict[Callable[..., Any], Any] = {
    **dict.fromkeys((int, math.floor, math.ceil, math.trunc), int),
    **{kind: kind for kind in (np.int64, np.float64, np.bool_)},
}
