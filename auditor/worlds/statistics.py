"""Statistics: functions from an output to one number, given in advance or learned from outputs.

A decision rule guesses from which of two inputs (worlds) an output comes, by the interval in which
this number lies.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from fedrec_auditor.auditor.worlds.fields import OutputEncoder
from fedrec_auditor.targets.compute import limit_to_one_thread

Floats = NDArray[np.float64]

# If a statistic has more distinct values than this, its cuts are quantiles, and otherwise lie
# between the values.
_MAX_VALUES = 4096
# Relative difference below which two values count as equal, because rounding explains it.
FLOAT_TOLERANCE = 1e-9
_FEW_CUTS = 4
# Values that repeat (atoms) get cuts of their own if each occurs at least `_REPEATED` times: the
# `_ATOMS` most frequent ones, and the `_ATOMS` that most exceed the `_ABOUT` values on either side.
_ATOMS, _REPEATED, _ABOUT = 64, 8, 8


@dataclass(frozen=True, slots=True)
class EntryNamer:
    """Gives names to the entries and parts of an output, for descriptions of decision rules.

    A part is one entry, or all entries that encode one field of a structured output.

    output_shape: shape of one output.
    encoder: encoder that made the entries; None if they are plain numbers or strings.
    """

    output_shape: tuple[int, ...]
    encoder: OutputEncoder | None = None

    @property
    def entries_by_part(self) -> tuple[tuple[int, ...], ...]:
        """Positions of the entries of each part of an output: one entry, or all entries of one
        field.
        """
        if self.encoder is not None:
            return self.encoder.column_groups
        return tuple((entry,) for entry in range(int(np.prod(self.output_shape))))

    def name_entry(self, entry: int) -> str:
        """Returns the name of an entry, such as "output[2]", or of the field that it encodes."""
        if self.encoder is not None:
            return self.encoder.name_column(entry)
        if not self.output_shape:
            return "output"
        return f"output[{', '.join(str(i) for i in np.unravel_index(entry, self.output_shape))}]"

    def name_part(self, entries: tuple[int, ...]) -> str:
        """Returns the name of a part of an output, whose entries have the positions ``entries``."""
        return self.encoder.name_field(entries[0]) if self.encoder else self.name_entry(entries[0])

    def describe(self, row: NDArray[Any], entries: tuple[int, ...]) -> str:
        """Describes the value of one part of an output, in words.

        ``row``: the entries of one output.
        ``entries``: positions of the entries of the part.
        """
        if self.encoder is not None:
            return self.encoder.describe(row, entries[0])
        return str(row[entries[0]].item())


# Outputs (n, *shape), columns of outputs, or values of a statistic (n,), of any type.
Values = NDArray[Any]
# Up to this many outcomes of a single entry are identified by comparison with each outcome.
_FEW = 8
_LARGE = 1e100
# Period of the low digits, in steps of a grid (halves, fifths, tenths and sixteenths of it divide
# it too), and the number of outputs in which a grid is looked for.
_PERIOD, _SAMPLED = 240, 4096
# Minimum number of distinct values of a grid, and maximum number of steps between its ends.
_FEWEST_ON_GRID, _FINEST = 9, 2.0**22


@dataclass(frozen=True, slots=True)
class ScalarScore:
    """A statistic that computes a number from numeric outputs, such as an entry or a sum.

    name: description of the number.
    compute: function that maps outputs (n, entries) to numbers (n,).
    is_raw: whether the number is an entry of the output itself.
    cuts: None; the ends of a rule's intervals follow from the values (see ``Statistic``).
    """

    name: str
    compute: Callable[[Values], Values]
    is_raw: bool = False
    cuts: ClassVar[None] = None

    def evaluate(self, outputs: Values) -> Values:
        """Computes the statistic's number (n,) for each of ``outputs`` (n, *shape)."""
        flat = outputs.reshape(len(outputs), -1)
        return self.compute(flat if flat.shape[1] == 1 else as_floats(flat))

    def describe(self, low: float, high: float) -> str:
        """Describes the interval ``low`` <= number < ``high`` in words; infinite ends are omitted.

        An interval that contains a single double is written as that double.
        """
        name = self.name
        if high == np.nextafter(low, np.inf):
            return f"{name} = {low!r}"
        starts, stops = np.isfinite(low), np.isfinite(high)
        beyond, within = (_shorten_end(end) if np.isfinite(end) else None for end in (low, high))
        above = f">= {low:.6g}" if beyond is None else f"> {beyond!r}"
        below = f"< {high:.6g}" if within is None else f"<= {within!r}"
        if starts and stops:
            start = f"{low:.6g} <=" if beyond is None else f"{beyond!r} <"
            return f"{start} {name} {below}"
        return f"{name} {above if starts else below}" if starts or stops else f"any {name}"


def _shorten_end(end: float) -> float | None:
    """Returns the double just below ``end`` if its text is much shorter than ``end``, else None.

    Such an end is a cut just above a frequent value.
    """
    before = float(np.nextafter(end, -np.inf))
    return before if len(repr(before)) + 4 < len(repr(float(end))) else None


def as_floats(outputs: Values) -> Floats:
    """Converts outputs (n, *shape) to doubles (n, entries), clipped so that squares stay finite."""
    flat = outputs.reshape(len(outputs), int(np.prod(outputs.shape[1:])))
    return np.clip(flat.astype(np.float64), -_LARGE, _LARGE)


@dataclass(frozen=True, slots=True)
class OutcomeIndex:
    """A statistic that maps an output to its index in a list of the outcomes of a sample.

    An outcome is a combination of values of some entries of an output. The index is -1 for an
    outcome that is not in the list.

    is_raw: True, because the values are read directly from the output.
    values_or_cuts: sorted values of each entry. For floats: cuts between the values, so that
        rounding errors do not matter.
    weights: weight of each entry in the key that identifies an outcome.
    outcome_keys: sorted keys of the outcomes.
    value_labels: for each outcome, descriptions of the values of its parts.
    entries: indices of the compared entries of an output; None for all.
    parts: the parts (one entry, or the entries of one field) that these entries form.
    part_names: name of each part.
    """

    # A key is the sum over entries of ``weights`` times the index of the entry's value in
    # ``values_or_cuts``, modulo 2^64. Two outcomes with equal keys count as one, which may make a
    # decision rule weaker but not its bound invalid.
    is_raw: ClassVar[bool] = True
    values_or_cuts: tuple[Values, ...]
    weights: NDArray[np.uint64]
    outcome_keys: NDArray[np.uint64]
    value_labels: tuple[tuple[str, ...], ...]
    entries: NDArray[np.intp] | None = None
    parts: tuple[tuple[int, ...], ...] = ()
    part_names: tuple[str, ...] = ()

    @classmethod
    def fit(
        cls,
        outputs: Values,
        max_outcomes: int,
        parts: tuple[tuple[int, ...], ...] = (),
        namer: EntryNamer | None = None,
    ) -> OutcomeIndex | None:
        """Lists the distinct outcomes of ``outputs`` (n, *shape), and returns them as a statistic.

        An outcome is a combination of values of an output's entries.

        max_outcomes: maximum number of outcomes; the result is None if there are more.
        parts: the compared parts of an output, each as indices of its entries. If empty, all
            entries are compared.
        namer: gives names to the entries, for descriptions of outcomes.
        """
        entries = np.array([entry for part in parts for entry in part]) if parts else None
        flat = _select_columns(outputs, entries)
        marks_by_entry = []
        for column in flat.T:
            values = np.unique(column)
            if len(values) > max_outcomes:
                return None
            marks_by_entry.append(make_cuts(values) if column.dtype.kind == "f" else values)
        marks = tuple(marks_by_entry)
        rng = np.random.default_rng(0)
        weights = rng.integers(2**62, size=len(marks), dtype=np.uint64) * np.uint64(2)
        weights += np.uint64(1)
        if len(marks) == 1:
            weights[:] = 1
        keys, where = np.unique(_make_keys(flat, marks, weights), return_index=True)
        if len(keys) > max_outcomes:
            return None
        if namer is None or not parts:
            rows = flat[where] if outputs.ndim > 1 else flat[where, 0]
            return cls(marks, weights, keys, tuple((str(row.tolist()),) for row in rows))
        whole = outputs[where].reshape(len(where), -1)
        labels = tuple(tuple(namer.describe(row, part) for part in parts) for row in whole)
        called = tuple(namer.name_part(part) for part in parts)
        return cls(marks, weights, keys, labels, entries, parts, called)

    @property
    def cuts(self) -> Floats:
        """Thresholds between successive indices of outcomes, (m,): -0.5, 0.5, 1.5 and so on."""
        return np.arange(len(self.outcome_keys), dtype=np.float64) - 0.5

    def evaluate(self, outputs: Values) -> Values:
        """Returns the index (n,) of each output in the list of outcomes; -1 for an output that is
        not in the list.

        ``outputs``: the outputs (n, *shape). An outcome is a combination of values of an output's
            entries.
        """
        flat = _select_columns(outputs, self.entries)
        is_single, dtype = len(self.values_or_cuts) == 1, self.values_or_cuts[0].dtype
        if is_single and dtype == flat.dtype and len(self.outcome_keys) <= _FEW:
            return self._match_values(flat[:, 0])
        if self.values_or_cuts[0].dtype.kind == "U" and flat.dtype.kind != "U":
            flat = flat.astype(str)
        keys = _make_keys(flat, self.values_or_cuts, self.weights)
        found = np.minimum(np.searchsorted(self.outcome_keys, keys), len(self.outcome_keys) - 1)
        known = self.outcome_keys[found] == keys
        for column, mark in zip(flat.T, self.values_or_cuts, strict=True):
            if mark.dtype.kind != "f":
                known &= mark[np.minimum(np.searchsorted(mark, column), len(mark) - 1)] == column
        return np.where(known, found, -1)

    def _match_values(self, column: Values) -> Values:
        positions = np.full(len(column), -1, dtype=np.int8)
        keys = _make_keys(self.values_or_cuts[0][:, None], self.values_or_cuts, self.weights)
        for value, position in zip(
            self.values_or_cuts[0], np.searchsorted(self.outcome_keys, keys).tolist(), strict=True
        ):
            positions += (column == value).view(np.int8) * np.int8(position + 1)
        return positions

    def describe(self, low: float, high: float) -> str:
        """Describes in words the outcomes with the indices from ``low`` to below ``high``.

        An outcome is a combination of values of an output's entries.
        """
        start = 0 if np.isinf(low) else max(0, math.ceil(low))
        labels = self.value_labels[start : None if np.isinf(high) else max(0, math.ceil(high))]
        if self.part_names and len(labels) == 1:
            named = zip(self.part_names, labels[0], strict=True)
            return " and ".join(f"{name} = {value}" for name, value in named)
        single = len(self.part_names) < 2
        values = [row[0] if single else f"({', '.join(row)})" for row in labels[:5]]
        name = (self.part_names or ("output",))[0] if single else f"({', '.join(self.part_names)})"
        more = f" and {len(labels) - 5} more" if len(labels) > 5 else ""
        return f"{name} in {{{', '.join(values)}{more}}}"


# Function from an output to one number.
Statistic = ScalarScore | OutcomeIndex
"""A function that maps each output to a number and is fixed before the counted outputs are drawn.

cuts: prescribed ends of the intervals by which a rule guesses; no guess below the first end. None
    if the values determine the cuts.
is_raw: whether the number is read from the output without a computation.
"""


def _select_columns(outputs: Values, entries: NDArray[np.intp] | None) -> Values:
    """Returns outputs (n, *shape) as (n, entries), restricted to ``entries`` if given."""
    flat = outputs.reshape(len(outputs), -1)
    return flat if entries is None else flat[:, entries]


def _make_keys(
    flat: Values, marks: tuple[Values, ...], weights: NDArray[np.uint64]
) -> NDArray[np.uint64]:
    keys = np.zeros(len(flat), dtype=np.uint64)
    for column, mark, weight in zip(flat.T, marks, weights, strict=True):
        keys += np.searchsorted(mark, column, side="left").astype(np.uint64) * weight
    return keys


def find_grid_step(values: Floats) -> float:
    """Returns the distance of neighbours on the grid of equal steps that holds all ``values`` (n,).

    The step is 1 for integers, and 0 if there is no grid.
    """
    different = np.unique(values[np.isfinite(values)])
    if np.all(different == np.rint(different)):
        return 1.0
    if len(different) < _FEWEST_ON_GRID:
        return 0.0
    steps = (different - different[0]) / np.diff(different).min()
    if steps[-1] > _FINEST or np.abs(steps - np.rint(steps)).max() > 1e-4:
        return 0.0
    return float((different[-1] - different[0]) / np.rint(steps[-1]))


def make_modulo_score(sample: Floats) -> ScalarScore:
    """Returns a statistic of the low digits of an output: its position on a grid, modulo 240.

    The grid is a set of equally spaced numbers that contains all numbers of ``sample`` (n,).
    Without such a grid, the statistic is the fractional part of the output.
    """
    # The low digits of an output may reveal the input although no interval of outputs does.
    step = find_grid_step(sample[:_SAMPLED])
    if step == 0:
        name = "fractional part of the output"
        return ScalarScore(name, lambda x: _modulo(as_floats(x)[:, 0], 1.0))
    if step == 1:
        return ScalarScore(f"output modulo {_PERIOD}", lambda x: _modulo(x[:, 0], _PERIOD))
    low = sample[np.abs(sample) < _LARGE].min()
    return ScalarScore(
        f"(output - {low:.6g}) / {step:.6g}, rounded, modulo {_PERIOD}",
        lambda x: _modulo(np.rint((as_floats(x)[:, 0] - low) / step), _PERIOD),
    )


def _modulo(x: Values, period: float) -> Values:
    """Returns the remainders of division by ``period``, and -1 for infinite numbers."""
    if x.dtype.kind != "f":
        whole: Values = x if x.itemsize == 8 else x.astype(np.int64)
        return np.asarray(np.mod(whole, period))
    return np.where(np.isfinite(x), np.mod(np.where(np.isfinite(x), x, 0.0), period), -1.0)


def make_bit_scores(sample: Values) -> list[ScalarScore]:
    """Returns a function from outputs to 0 or 1 for each bit that varies in ``sample``.

    ``sample``: outputs (n, ...) that are single integers. These statistics reveal values that are
    packed into one integer.
    """
    flat = sample.reshape(-1)
    varying = int(np.bitwise_or.reduce(flat ^ flat[0]).astype(np.int64))
    return [
        ScalarScore(f"bit {place} of the output", partial(_read_bit, place=place))
        for place in range(63)
        if varying >> place & 1
    ]


def _read_bit(x: Values, place: int) -> Values:
    return x[:, 0].astype(np.int64) >> place & 1


def make_predefined_scores(width: int) -> list[ScalarScore]:
    """Returns functions from outputs to numbers (statistics) that are fixed in advance.

    ``width``: number of entries of an output. If it is 1, the statistic is the entry itself;
    otherwise the statistics are sums, extremes and counts of the entries.
    """
    if width == 1:
        return [ScalarScore("output", lambda x: x[:, 0])]
    return [
        ScalarScore("sum of the output", lambda x: x.sum(axis=1)),
        ScalarScore("sum of |output|", lambda x: np.abs(x).sum(axis=1)),
        ScalarScore("largest entry", lambda x: x.max(axis=1)),
        ScalarScore("smallest entry", lambda x: x.min(axis=1)),
        ScalarScore("number of entries that are not 0", lambda x: np.count_nonzero(x, axis=1)),
        ScalarScore(
            "number of entries that equal the next",
            lambda x: np.count_nonzero(x[:, 1:] == x[:, :-1], axis=1),
        ),
        ScalarScore(
            "sum of |differences of neighbouring entries|",
            lambda x: np.abs(np.diff(x, axis=1)).sum(axis=1),
        ),
    ]


def count_in_intervals(values: NDArray[Any], cuts: Floats) -> NDArray[np.int64]:
    """Counts the ``values`` in each interval between ``cuts`` (m,), as an array (m + 1,).

    A value equal to a cut belongs to the interval above the cut.
    """
    if len(cuts) > _FEW_CUTS:
        below = np.searchsorted(np.sort(values), cuts)  # sorting is cheaper than many searches
        return np.diff(below, prepend=0, append=len(values))
    if values.dtype.kind == "b":
        values = values.view(np.uint8)
    whole = values.dtype.kind in "iu"
    beyond = [
        len(values),
        *(int(np.count_nonzero(values >= (math.ceil(cut) if whole else cut))) for cut in cuts),
        0,
    ]
    counts = np.array(beyond, dtype=np.int64)
    return counts[:-1] - counts[1:]


def _compute_excess(counts: NDArray[np.int64]) -> Floats:
    """Returns by how many standard deviations each count exceeds the mean of its neighbours."""
    around = np.append(np.ones(_ABOUT), [0.0, *np.ones(_ABOUT)])
    near = np.maximum(1.0, np.convolve(np.ones(len(counts)), around, "same"))
    usual = np.convolve(counts, around, "same") / near
    return np.round((counts - usual) / np.sqrt(usual + 1.0), 9)


def has_frequent_value(values: NDArray[Any]) -> bool:
    """Checks whether some value repeats at least 8 times."""
    return int(np.unique(values, return_counts=True)[1].max(initial=0)) >= _REPEATED


def make_cuts(values: NDArray[Any]) -> Floats:
    """Returns cuts that divide the range of ``values`` into intervals, as an increasing array (m,).

    If there are few distinct values, the cuts lie between them. Otherwise:

    - Most cuts are quantiles, dense in both tails.
    - Frequent values have a cut on either side.
    """
    different = np.unique(values).astype(np.float64)
    finite = different[np.isfinite(different)]
    gaps = np.diff(finite)
    apart = gaps > FLOAT_TOLERANCE * np.maximum(np.abs(finite[1:]), np.abs(finite[:-1]))
    if np.count_nonzero(apart) < _MAX_VALUES:
        cuts = (finite[:-1] + gaps / 2)[apart]
    else:
        ordered = np.sort(values)
        n = len(ordered)
        tail = np.unique(np.geomspace(1, n / 16, 48).astype(np.int64))
        ranks = np.concatenate([tail, np.linspace(n / 16, n - n / 16, 64).astype(int), n - tail])
        counts = np.unique(values, return_counts=True)[1]
        ranks_by = (counts, _compute_excess(counts))
        often = np.unique([np.argsort(-each, kind="stable")[:_ATOMS] for each in ranks_by])
        common = different[often[counts[often] >= _REPEATED]]
        cuts = np.concatenate([ordered[ranks], common, np.nextafter(common, np.inf)])
        cuts = np.unique(cuts[np.isfinite(cuts)]).astype(np.float64)
    if len(finite) == 0:
        return np.zeros(1)
    beyond = [finite[-1] + max(1.0, abs(finite[-1]))] if different[-1] == np.inf else []
    before = [finite[0] - max(1.0, abs(finite[0]))] if different[0] == -np.inf else []
    return np.concatenate([before, cuts, beyond])


# Rounding step of numbers of size 1: larger than errors of summation, smaller than differences.
SCORE_ROUNDING_STEP = 2.0**-32
# Smallest size that is distinguished, so that quotients by a step stay finite.
_MIN_SIZE = 1e-250


def round_scaled(values: ArrayLike, magnitude: ArrayLike = 1.0) -> NDArray[Any]:
    """Rounds ``values`` so that the last bits, which depend on the processor, are removed.

    magnitude: size of the values. With p the smallest power of two of at least this size, the
        result is a multiple of 2^-32 p.

    Infinite numbers and NaN are unchanged. Arrays broadcast.
    """
    # Linear algebra adds in an order that depends on the processor, so the last bits of a sum
    # depend on the machine. Scores are therefore rounded before a decision rule is chosen, and
    # before the rule compares scores with its thresholds.
    step = SCORE_ROUNDING_STEP * np.exp2(
        np.ceil(np.log2(np.clip(np.asarray(magnitude, float), _MIN_SIZE, 1.0 / _MIN_SIZE)))
    )
    return np.asarray(np.rint(np.asarray(values) / step) * step + 0.0)


_STEPS = 30
_PENALTY = 1e-4
_LONGEST_STEP = 4.0
_SETTLED = 1e-7


def fit_logistic(features: Floats, first: Floats, second: Floats) -> Floats:
    """Fits the weights (f,) of a logistic regression of the input (world) on ``features`` (n, f).

    ``first``, ``second``: how often each row of features occurs in the first and in the second
        world, (n,).
    """
    total = first + second
    share = total / total.sum()
    scale = np.maximum(np.sqrt(share @ (features * features)), 1e-12)
    x = features / scale
    target = first / total.sum()
    weights = np.zeros(x.shape[1])
    # The small ridge penalty makes a solution exist also if a plane separates the worlds. The steps
    # of Newton's method are limited.
    ridge = _PENALTY * np.eye(x.shape[1])
    for _ in range(_STEPS):
        probability = special.expit(x @ weights)
        gradient = x.T @ (target - share * probability) - _PENALTY * weights
        curvature = (x.T * (share * probability * (1 - probability))) @ x + ridge
        step = np.linalg.solve(curvature, gradient)
        longest = float(np.abs(x @ step).max())
        weights += step * min(1.0, _LONGEST_STEP / max(longest, 1e-12))
        if longest < _SETTLED:
            break
    return np.asarray(weights / scale)


# Maximum numbers for learning: outputs per world, entries of an output that a regression uses, and
# entries that are statistics by themselves.
_ROWS = 10_000
_ENTRIES = 32
_ALONE = 8
# Maximum number of distinct values, and standard errors by which log-odds must exceed 0.
_VALUES, _SURE = 64, 4.0
# Entries, also infinite ones, are clipped at this many standard deviations from the median.
_REACH = 1e6


def learn_scores(first: Floats, second: Floats, namer: EntryNamer) -> Iterator[ScalarScore]:
    """Learns statistics (functions from outputs to numbers) that distinguish outputs of two inputs.

    ``first``, ``second``: outputs (n, d) of each input (world).
    ``namer``: gives names to their entries.

    The statistics are yielded in this order, cheap ones first:

    - single entries that differ most;
    - sums of such entries, with the sign of their difference;
    - the projection on the difference of means;
    - the counts of values anywhere in the output, weighted by their log-odds;
    - a logistic regression on entries, their squares and clipped entries;
    - gradient boosting.
    """
    first, second = first[:_ROWS], second[:_ROWS]
    both = np.concatenate([first, second])
    middle = np.median(both, axis=0)
    low, high = np.quantile(both, [0.01, 0.99], axis=0)
    spread = np.clip(both, low, high).std(axis=0)
    spread = np.where(spread > 0, spread, np.maximum(np.ptp(both, axis=0), 1e-300))
    spread = np.exp2(np.rint(np.log2(spread)))  # equal spreads stay equal, and mantissas short
    a, b = _standardize(first, middle, spread), _standardize(second, middle, spread)

    def score(name: str, entries: NDArray[np.intp], compute: Callable[..., Floats]) -> ScalarScore:
        """Makes a statistic, ``compute`` of standardised entries, larger for the first input."""
        center, scale = middle[entries], spread[entries]
        return ScalarScore(
            name, lambda flat: round_scaled(compute(_standardize(flat[:, entries], center, scale)))
        )

    shift = a.mean(axis=0) - b.mean(axis=0)
    squares = (a * a).mean(axis=0) - (b * b).mean(axis=0)
    squares /= np.maximum(np.concatenate([a * a, b * b]).std(axis=0), 1e-9)
    zeros = (first == 0).mean(axis=0) - (second == 0).mean(axis=0)
    apart = round_scaled(np.maximum(np.abs(shift), np.maximum(np.abs(squares), 2 * np.abs(zeros))))
    order = np.argsort(-apart, kind="stable")
    for entry in order[:_ALONE].tolist():
        yield ScalarScore(namer.name_entry(entry), itemgetter((slice(None), entry)), is_raw=True)
    by_shift = np.argsort(-round_scaled(np.abs(shift)), kind="stable")
    for count in sorted({2**i for i in range(1, 17) if 2**i < len(shift)} | {len(shift)}):
        chosen = np.sort(by_shift[:count])
        sign = np.sign(shift[chosen])
        yield score(f"signed sum of {count} entries", chosen, partial(_weigh, weights=sign))
    if len(shift) > 1:
        every = np.arange(len(shift))
        # Optimal for noise of one size in any direction.
        variance = np.maximum((a.var(axis=0) + b.var(axis=0)) / 2.0, 1e-9)
        weights = shift / variance
        weights = round_scaled(weights / np.abs(weights).max(initial=1e-300))
        yield score(
            "projection on the difference of means", every, partial(_weigh, weights=weights)
        )
        if (values := np.unique(both)).size <= _VALUES:
            # For outputs such as a list of items.
            yield _make_items_score(first, second, values)
    top = np.sort(order[:_ENTRIES])
    a, b = a[:, top], b[:, top]
    # Entries are clipped to the range between the medians of the two worlds. The regression is
    # optimal for Gaussian and Laplace noise and for bits; gradient boosting finds all other
    # differences.
    features = _make_feature_map(np.median(a, axis=0), np.median(b, axis=0))
    counts = np.repeat([1.0, 0.0], [len(a), len(b)])
    weights = round_scaled(fit_logistic(features(np.concatenate([a, b])), counts, 1.0 - counts))
    yield score(f"log-odds learnt on {len(top)} entries", top, lambda x: features(x) @ weights)
    yield score(f"gradient boosting on {len(top)} entries", top, fit_boosted_trees(a, b))


def _make_items_score(first: Floats, second: Floats, values: Floats) -> ScalarScore:
    """Returns a statistic: the sum of the log-odds of all values in an output, in any position.

    ``first``, ``second``: outputs (n, d) of two inputs.
    ``values``: all values that occur. The log-odds of a value compare its frequencies under the two
        inputs.
    """

    def count(flat: Floats) -> Floats:
        return np.stack([(flat == value).sum(axis=1) for value in values], axis=1)

    first_n, second_n = (count(world).sum(axis=0) + 0.5 for world in (first, second))
    weights = np.log(first_n / first_n.sum()) - np.log(second_n / second_n.sum())
    error = np.sqrt(1.0 / first_n + 1.0 / second_n)
    weights = np.where(np.abs(weights) > _SURE * error, weights, 0.0)
    names = ", ".join(f"{value:g}" for value in values[np.argsort(-np.abs(weights))][:2])
    return ScalarScore(
        f"log-odds of output's values ({names} above all)",
        lambda x: round_scaled(count(x) @ weights),
    )


def _weigh(x: Floats, weights: Floats) -> Floats:
    return x @ weights


def _standardize(x: Floats, middle: Floats, spread: Floats) -> Floats:
    with np.errstate(over="ignore"):
        return round_scaled(np.clip((x - middle) / spread, -_REACH, _REACH))


def _make_feature_map(first: Floats, second: Floats) -> Callable[[Floats], Floats]:
    low, high = np.minimum(first, second), np.maximum(first, second)
    differ = high > low

    def features(x: Floats) -> Floats:
        clipped = np.clip(x, low, high)[:, differ]
        return np.concatenate([np.ones((len(x), 1)), x, x * x, clipped], axis=1)

    return features


def fit_boosted_trees(first: Floats, second: Floats) -> Callable[[Floats], Floats]:
    """Fits gradient-boosted trees that distinguish two inputs (worlds) by features.

    ``first``, ``second``: features (n, f) of each world. The returned function maps features (n, f)
    to the log-odds of the first world, (n,).
    """
    from sklearn.ensemble import HistGradientBoostingClassifier

    model = HistGradientBoostingClassifier(
        max_iter=40, max_leaf_nodes=15, min_samples_leaf=40, early_stopping=False, random_state=0
    )
    labels = np.repeat([1, 0], [len(first), len(second)])
    # Several threads would wait for one another longer than they work.
    with limit_to_one_thread(None):
        model.fit(np.concatenate([first, second]), labels)

    def score(x: Floats) -> Floats:
        """Returns the log-odds of the first world for the features ``x`` (n, f)."""
        with limit_to_one_thread(None):
            return np.asarray(model.decision_function(x))

    return score
