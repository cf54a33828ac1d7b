"""Affine functions of one random draw (noise), and the rules that compute functions of such noise.

They represent real-valued randomness exactly when the code of a randomizer is traced. A rule
computes one function, such as a sum, a minimum or rounding. A comparison in a rule may be true for
only some values of the draw. The rule is then run once per outcome.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from fedrec_auditor.auditor.tracing.paths import Draw, ExecutionPath, NotTraced, RealDraw

# A set of values (a cell) of each of several random draws.
ValuesByDraw = dict[Draw, Any]
# A possible value, after the set of values of each draw that leads to it.
ConditionalValue = tuple[ValuesByDraw, Any]

# Name of draws of integers with more than 2^40 values, which traced code may only use as seeds.
SEED_DRAW_NAME = "integers() as a seed"
_MAX_STEPS = 256
_HALF = Fraction(1, 2)


@dataclass(frozen=True, slots=True)
class AffineNoise:
    """A random number: coefficient * variable + constant.

    The variable is a random draw, or a function of one draw.

    - ``source``: the random draw.
    - ``coefficient``: exact number, not 0.
    - ``constant``: exact number.
    - ``function``: None if the variable is the draw itself. Otherwise the variable is
      ``function(inner_noise)``, with ``math.floor``, or with ``math.log`` for a uniform draw.
    - ``inner_noise``: the noise inside ``function``, which depends on this draw only; None without
      ``function``.
    """

    source: RealDraw
    coefficient: Fraction = Fraction(1)
    constant: Fraction = Fraction(0)
    function: Callable[..., Any] | None = None
    inner_noise: AffineNoise | None = None

    @property
    def variable_key(self) -> tuple[Any, ...]:
        """Hashable key of the noise's random variable, without coefficient and constant.

        Two noises with equal keys depend on the same variable.
        """
        return self.source, self.function, self.inner_noise

    @property
    def is_lattice(self) -> bool:
        """Whether all values of the noise lie on a grid of equal steps, as integers do."""
        return self.function is math.floor or self.source.is_integer

    @property
    def is_random_seed(self) -> bool:
        """Whether the random draw may only seed another generator: an integer with more than 2^40
        possible values.
        """
        return self.source.name == SEED_DRAW_NAME

    def evaluate(self, value: Any) -> float:
        """Returns the value of the noise if its random draw ``source`` has the value ``value``."""
        if self.inner_noise is not None and self.function is not None:
            inner = self.inner_noise.evaluate(value)
            value = -math.inf if self.function is math.log and inner <= 0 else self.function(inner)
        return float(self.coefficient) * float(value) + float(self.constant)

    def split_cell(self, cell: Any, threshold: Any, strict: bool = True) -> tuple[Any, Any]:
        """Splits ``cell``, a set of values of the random draw, by a threshold of the noise.

        Returns the values for which the noise is below ``threshold``, and all other values. If
        ``strict`` is false, a noise equal to the threshold counts as below.
        """
        if math.isinf(threshold):
            return (cell, cell[:0]) if threshold > 0 else (cell[:0], cell)
        crossing = (threshold - self.constant) / self.coefficient
        strict ^= self.coefficient < 0
        if self.inner_noise is not None and self.function is math.log:
            crossing = Fraction(math.exp(min(float(crossing), 700.0)))
            low, high = self.inner_noise.split_cell(cell, crossing)
        elif self.inner_noise is not None:
            whole = math.ceil(crossing) if strict else math.floor(crossing) + 1
            low, high = self.inner_noise.split_cell(cell, Fraction(whole))
        else:
            if self.source.is_integer:
                crossing = math.ceil(crossing) - _HALF if strict else math.floor(crossing) + _HALF
            low, high = self.source.split_cell(cell, crossing)
        return (low, high) if self.coefficient > 0 else (high, low)

    def multiply(self, factor: Any) -> AffineNoise:
        """Returns the noise multiplied by ``factor``, a number other than 0."""
        factor = Fraction(factor)
        return replace(self, coefficient=self.coefficient * factor, constant=self.constant * factor)

    def add(self, number: Any) -> AffineNoise:
        """Returns the sum of the noise and a number."""
        return replace(self, constant=self.constant + number)

    def __neg__(self) -> AffineNoise:
        return self.multiply(-1)


def to_fraction(value: Any) -> Any:
    """Converts a number to an exact fraction, but an infinite number to a float.

    Raises NotTraced for NaN and for values that are not numbers.
    """
    try:
        return Fraction(value.item() if isinstance(value, (np.generic, np.ndarray)) else value)
    except OverflowError:
        return float(value)
    except (TypeError, ValueError) as error:
        raise NotTraced(f"the code combines noise with {value!r}, which is not a number") from error


class UnfixedDrawError(Exception):
    """Raised for a sum of two noises if the value of one of their draws must be fixed first.

    ``source``: the random draw whose value the execution path must fix.
    """

    def __init__(self, source: RealDraw) -> None:
        self.source = source


class ComparisonCase:
    """One case in computing a function of noise, such as a minimum: one outcome for each
    comparison.

    A comparison is open if it is true for some values of the draws and false for others. The
    function is computed once per combination of outcomes of its open comparisons.

    - ``path``: the execution path on which the numbers are drawn.
    - ``cells``: for each draw, the set of its values that give the outcomes so far.
    - ``outcomes``: outcomes that are given for the first open comparisons. Every later open
      comparison is taken as true.
    - ``alternatives``: cases to compute later, as their ``outcomes``. In each of them, one of these
      later comparisons is false.
    """

    def __init__(self, path: ExecutionPath, cells: ValuesByDraw, outcomes: list[bool]) -> None:
        # Cases are found depth first: a new case repeats the outcomes of an earlier case up to one
        # open comparison, and reverses the outcome of this comparison.
        self.path, self.cells = path, cells
        self.alternatives: list[list[bool]] = []
        self._outcomes, self._n_used = outcomes, 0

    def is_less(self, a: Any, b: Any, *, strict: bool = True) -> bool:
        """Returns the outcome of a < b, or of a <= b if ``strict`` is false, for numbers or noise.

        If the comparison is open, ``cells`` is restricted to the values of the draw with this
        outcome. Raises NotTraced if two different noises are compared.
        """
        if isinstance(a, AffineNoise) and isinstance(b, AffineNoise):
            if a.variable_key != b.variable_key:
                raise NotTraced("the code compares one noise with another, not with a number")
            coefficient, constant = a.coefficient - b.coefficient, a.constant - b.constant
            a = replace(a, coefficient=coefficient, constant=constant) if coefficient else constant
            b = Fraction(0)
        if isinstance(a, AffineNoise):
            source = a.source
            true, false = a.split_cell(self.cells[source], to_fraction(b), strict)
        elif isinstance(b, AffineNoise):
            source = b.source
            false, true = b.split_cell(self.cells[source], to_fraction(a), not strict)
        else:
            return bool(a < b if strict else a <= b)
        # Ties are ignored for a draw with a density, because their probability is 0.
        outcome = bool(true)
        if true and false:
            if self._n_used == len(self._outcomes):
                self.alternatives.append([*self._outcomes, False])
                self._outcomes.append(True)
            outcome = self._outcomes[self._n_used]
            self._n_used += 1
        self.cells = {**self.cells, source: true if outcome else false}
        return outcome


def apply_to_noise(
    path: ExecutionPath, function: Callable[..., Any], cells: ValuesByDraw, values: tuple[Any, ...]
) -> Iterator[ConditionalValue]:
    """Yields the possible results of ``function(*values)``, where some values are noise.

    A result is a pair (cells, value). For each random draw, its ``cells`` contain the set of values
    that leads to ``value``. The argument ``cells`` holds the values that are allowed.

    Raises NotTraced if no rule computes this function of noise.
    """
    seeds = any(isinstance(value, AffineNoise) and value.is_random_seed for value in values)
    if seeds and function not in _OF_SEEDS:
        raise NotTraced("the code uses a random integer of over 2^40 values, but not as a seed")
    rule = _RULES.get(function)
    if rule is None:
        name = getattr(function, "__name__", str(function))
        raise NotTraced(f"tracing can shift, scale, compare and round noise, but not apply {name}")
    kind = _KINDS.get(function, np.bool_ if isinstance(function, np.ufunc) else None)
    waiting: list[list[bool]] = [[]]
    while waiting:
        part = ComparisonCase(path, cells, waiting.pop())
        value = rule(part, *values)
        waiting += part.alternatives
        # Only truth values become ``numpy.bool_``.
        plain = isinstance(value, AffineNoise) or (kind is np.bool_ and not isinstance(value, bool))
        yield part.cells, value if plain or kind is None else kind(value)


def select(condition: Any, a: Any, b: Any) -> Any:
    """Chooses between two values, as ``numpy.where`` does for one entry.

    Returns ``a`` if ``condition`` is true, else ``b``.
    """
    return a if condition else b


def to_scalar(value: Any) -> Any:
    """Converts a NumPy number to a Python number; returns every other value unchanged."""
    return value.item() if isinstance(value, np.generic) else value


def make_cast(kind: Any) -> Callable[[Any], Any]:
    """Returns a function that converts one value to the NumPy dtype ``kind``, such as int64."""
    dtype = np.dtype(kind)

    def convert(value: Any) -> Any:
        """Converts one value to the dtype."""
        return np.array(value).astype(dtype)[()]

    return dtype.type if dtype.type in _RULES else convert


def _find_value(noise: AffineNoise, cells: ValuesByDraw) -> Fraction | None:
    """Returns the noise as a fraction if ``cells`` leave one integer for its draw, else None."""
    source, cell = noise.source, cells[noise.source]
    low, high = (math.ceil(e) if math.isfinite(e) else e for e in cell[0])
    if noise.inner_noise or not source.is_integer or high - low != 1 or len(cell) > 1:
        return None
    return Fraction(noise.coefficient * low + noise.constant)


def _add(part: ComparisonCase, a: Any, b: Any) -> Any:
    if isinstance(a, AffineNoise) and isinstance(b, AffineNoise):
        first, second = _find_value(a, part.cells), _find_value(b, part.cells)
        if a.variable_key == b.variable_key or (first is None and second is None):
            return _add_noises(part, a, b)
        a, b = (a, second) if first is None else (first, b)
    noise, number = (a, to_fraction(b)) if isinstance(a, AffineNoise) else (b, to_fraction(a))
    return number if math.isinf(number) else noise.add(number)


# Distribution of the difference of two independent draws, by the distribution of both draws.
_TWICE = {"geometric": "two-sided geometric", "exponential": "laplace"}


def _add_noises(part: ComparisonCase, a: AffineNoise, b: AffineNoise) -> Any:
    """Returns the sum of two noises of one variable, or of two draws that nothing restricts yet.

    Raises UnfixedDrawError if a draw must be fixed first, and NotTraced if the sum has no known
    density.
    """
    constant = a.constant + b.constant
    if a.variable_key == b.variable_key:
        coefficient = a.coefficient + b.coefficient
        if not coefficient:
            return float(constant)
        return replace(a, coefficient=coefficient, constant=constant)
    s, t = a.source, b.source
    free = all(
        noise.inner_noise is None
        and part.cells[noise.source] == noise.source.domain
        and noise.source not in part.path.limits
        for noise in (a, b)
    )
    # The sum of two normal draws is a normal draw. The difference of two exponential draws is a
    # Laplace draw. The difference of two geometric draws with one distribution is a two-sided
    # geometric draw.
    if free and s.family == t.family == "normal":
        scale = math.hypot(a.coefficient, b.coefficient)
        total = RealDraw("a sum of normal()", "normal")
        weights = float(a.coefficient) / scale, float(b.coefficient) / scale
    elif free and s.has_same_law(t) and s.family in _TWICE and a.coefficient == -b.coefficient:
        scale, weights = float(a.coefficient), (1.0, -1.0)
        total = RealDraw(f"a difference of {s.name}", _TWICE[s.family], s.geometric_rate)
    else:
        for noise in (a, b):
            if noise.inner_noise is None and noise.source.is_integer and not noise.source.n_values:
                raise UnfixedDrawError(noise.source)
        raise NotTraced("the code adds two noises whose sum has no density that tracing knows")
    source = part.path.merge_sum(total, (s, weights[0]), (t, weights[1]))
    rest = {known: cell for known, cell in part.cells.items() if known not in (s, t)}
    part.cells = {**rest, source: source.domain}
    return AffineNoise(source, Fraction(scale), constant)  # type: ignore[arg-type]


def _multiply(part: ComparisonCase, a: Any, b: Any) -> Any:
    if isinstance(a, AffineNoise) and isinstance(b, AffineNoise):
        raise NotTraced("the code multiplies one noise by another, which tracing cannot follow")
    noise, number = (a, to_fraction(b)) if isinstance(a, AffineNoise) else (b, to_fraction(a))
    if math.isinf(number):
        raise NotTraced("the code multiplies noise by an infinite number")
    return noise.multiply(number) if number else 0.0


def _divide(part: ComparisonCase, a: Any, b: Any) -> Any:
    if isinstance(b, AffineNoise):
        raise NotTraced("the code divides by noise, which tracing cannot follow")
    number = to_fraction(b)
    if number == 0 or math.isinf(number):
        raise NotTraced(f"the code divides noise by {b!r}")
    return a.multiply(1 / number)


def _equal(part: ComparisonCase, a: Any, b: Any) -> bool:
    return part.is_less(a, b, strict=False) and not part.is_less(a, b)


def _minimum(part: ComparisonCase, a: Any, b: Any) -> Any:
    return a if part.is_less(a, b) else b


def _maximum(part: ComparisonCase, a: Any, b: Any) -> Any:
    return b if part.is_less(a, b) else a


def _clip(part: ComparisonCase, a: Any, low: Any, high: Any) -> Any:
    raised = a if low is None else _maximum(part, a, low)
    return raised if high is None else _minimum(part, raised, high)


def _where(part: ComparisonCase, condition: Any, a: Any, b: Any) -> Any:
    if isinstance(condition, AffineNoise):
        raise NotTraced("the code uses continuous noise as a condition. Write 'noise != 0'")
    return a if condition else b


def _absolute(part: ComparisonCase, a: Any) -> Any:
    return -a if part.is_less(a, 0) else a


def _sign(part: ComparisonCase, a: AffineNoise) -> float:
    if part.is_less(a, 0):
        return -1.0
    return 0.0 if part.is_less(a, 0, strict=False) else 1.0


def _copysign(part: ComparisonCase, size: Any, a: Any) -> Any:
    size = _absolute(part, size)
    return -size if part.is_less(a, 0) else size


def _floor(part: ComparisonCase, a: AffineNoise) -> Any:
    """Rounds noise down to an integer.

    If the noise has a range of less than 256, the values of its draw are split by the resulting
    integer. Otherwise the result is noise whose variable is the rounded number.
    """
    if a.is_lattice:
        if a.coefficient.denominator == 1 and a.constant.denominator == 1:
            return a
        raise NotTraced("the code rounds integer noise that was scaled or shifted by a fraction")
    cell = part.cells[a.source]
    low, high = sorted(a.evaluate(float(end)) for end in (cell[0][0], cell[-1][1]))
    if not (math.isfinite(low) and math.isfinite(high) and high - low < _MAX_STEPS):
        return AffineNoise(a.source, function=math.floor, inner_noise=a)
    whole, beyond = math.floor(low), math.ceil(high) + 1
    while beyond - whole > 1:
        middle = (whole + beyond) // 2
        whole, beyond = (whole, middle) if part.is_less(a, middle) else (middle, beyond)
    return float(whole)


def _ceil(part: ComparisonCase, a: AffineNoise) -> Any:
    return -_floor(part, -a)


def _rint(part: ComparisonCase, a: AffineNoise) -> Any:
    return _floor(part, a if a.is_lattice else a.add(_HALF))


def _round(part: ComparisonCase, a: AffineNoise, digits: Any = 0) -> Any:
    factor = Fraction(10) ** digits
    value = _rint(part, a.multiply(factor))
    return value.multiply(1 / factor) if isinstance(value, AffineNoise) else value / float(factor)


def _trunc(part: ComparisonCase, a: AffineNoise) -> Any:
    return _ceil(part, a) if part.is_less(a, 0) else _floor(part, a)


def _log(part: ComparisonCase, a: AffineNoise) -> Any:
    if a.inner_noise is not None or a.source.family != "uniform":
        raise NotTraced("tracing supports the logarithm of uniform noise only")
    log = AffineNoise(a.source, function=math.log, inner_noise=a)
    return log if part.is_less(0, a) else math.nan


_RULES: dict[Callable[..., Any], Callable[..., Any]] = {
    function: rule
    for rule, functions in (
        (_add, (np.add, operator.add)),
        (
            lambda part, a, b: _add(part, a, -b if isinstance(b, AffineNoise) else -to_fraction(b)),
            (np.subtract, operator.sub),
        ),
        (_multiply, (np.multiply, operator.mul)),
        (_divide, (np.true_divide, operator.truediv)),
        (lambda part, a: -a, (np.negative, operator.neg)),
        (lambda part, a: a, (np.positive, operator.pos, float, to_scalar, np.float64)),
        (lambda part, a, b: part.is_less(a, b), (np.less, operator.lt)),
        (lambda part, a, b: part.is_less(a, b, strict=False), (np.less_equal, operator.le)),
        (lambda part, a, b: part.is_less(b, a), (np.greater, operator.gt)),
        (lambda part, a, b: part.is_less(b, a, strict=False), (np.greater_equal, operator.ge)),
        (_equal, (np.equal, operator.eq)),
        (lambda part, a, b: not _equal(part, a, b), (np.not_equal, operator.ne)),
        (lambda part, a: not _equal(part, a, 0), (np.bool_,)),
        (_minimum, (np.minimum, np.fmin)),
        (_maximum, (np.maximum, np.fmax)),
        (_clip, (np.clip,)),
        (_where, (select,)),
        (_absolute, (np.absolute, np.fabs, operator.abs)),
        (_sign, (np.sign,)),
        (_copysign, (np.copysign, math.copysign)),
        (_floor, (np.floor, math.floor)),
        (_ceil, (np.ceil, math.ceil)),
        (_rint, (np.rint,)),
        (_round, (np.round, round)),
        (_trunc, (np.trunc, int, np.int64, math.trunc)),
        (_log, (np.log, math.log)),
        (lambda part, a: _log(part, a.add(1)), (np.log1p, math.log1p)),
        (lambda part, a: True, (np.isfinite,)),
        (lambda part, a: False, (np.isnan, np.isinf)),
    )
    for function in functions
}
_OF_SEEDS = (int, to_scalar, np.int64, np.add, operator.add, np.multiply, operator.mul)
_KINDS: dict[Callable[..., Any], Any] = {
    **dict.fromkeys((int, math.floor, math.ceil, math.trunc), int),
    **{kind: kind for kind in (np.int64, np.float64, np.bool_)},
}
