"""Numbers that an output is boiled down to before a rule cuts them: read off it, or learned."""

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

from fedrec_auditor.auditor.worlds.fields import Fields
from fedrec_auditor.targets.compute import one_thread

Floats = NDArray[np.float64]

# Statistics of more different values than this are cut at quantiles, not between the values.
_MOST_VALUES = 4096
ROUNDING = 1e-9
"""Values closer than this share of their size are one: their difference is rounding."""
_FEW_CUTS = 4
# So many values that came up so often are cut out of a range: an atom, if not a grid's; and as many
# that came oftener than so many values on either side of them.
_ATOMS, _REPEATED, _ABOUT = 64, 8, 8


@dataclass(frozen=True, slots=True)
class EntryNames:
    """The entries of an output of ``shape``; ``fields`` where they encode a structure.

    A part is an entry, or the entries of one field.
    """

    shape: tuple[int, ...]
    fields: Fields | None = None

    @property
    def parts(self) -> tuple[tuple[int, ...], ...]:
        """The entries of each part."""
        if self.fields is not None:
            return self.fields.columns
        return tuple((entry,) for entry in range(int(np.prod(self.shape))))

    def of(self, entry: int) -> str:
        """An entry as Python would write it, or what it says of its field."""
        if self.fields is not None:
            return self.fields.column_name(entry)
        if not self.shape:
            return "output"
        return f"output[{', '.join(str(i) for i in np.unravel_index(entry, self.shape))}]"

    def part(self, entries: tuple[int, ...]) -> str:
        """The name of a part."""
        return self.of(entries[0]) if self.fields is None else self.fields.name(entries[0])

    def value(self, row: NDArray[Any], entries: tuple[int, ...]) -> str:
        """What the part shows in an output ``row`` (entries of all,)."""
        if self.fields is not None:
            return self.fields.value(row, entries[0])
        return str(row[entries[0]].item())


Values = NDArray[Any]
# So few whole numbers are told apart by comparing with each.
_FEW = 8
_LARGE = 1e100
# Steps of a grid after which low digits are taken to repeat (halves, fifths, tenths and sixteenths
# of it too), and outputs that are looked at for a grid.
_PERIOD, _SAMPLED = 240, 4096
# A grid needs so many different values, and at most so many steps between them.
_FEWEST_ON_GRID, _FINEST = 9, 2.0**22


@dataclass(frozen=True, slots=True)
class Number:
    """A function of a numeric output that has a name of its own: a coordinate, a sum.

    ``plain`` says that it is an entry of the output.
    """

    name: str
    compute: Callable[[Values], Values]
    plain: bool = False
    cuts: ClassVar[None] = None

    def of(self, outputs: Values) -> Values:
        """Outputs (n, *shape) to numbers (n,)."""
        flat = outputs.reshape(len(outputs), -1)
        return self.compute(flat if flat.shape[1] == 1 else as_floats(flat))

    def words(self, low: float, high: float) -> str:
        """``low`` <= name < ``high``, without the ends that are infinite; the one double in it."""
        name = self.name
        if high == np.nextafter(low, np.inf):
            return f"{name} = {low!r}"
        starts, stops = np.isfinite(low), np.isfinite(high)
        beyond, within = (_after(end) if np.isfinite(end) else None for end in (low, high))
        above = f">= {low:.6g}" if beyond is None else f"> {beyond!r}"
        below = f"< {high:.6g}" if within is None else f"<= {within!r}"
        if starts and stops:
            start = f"{low:.6g} <=" if beyond is None else f"{beyond!r} <"
            return f"{start} {name} {below}"
        return f"{name} {above if starts else below}" if starts or stops else f"any {name}"


def _after(end: float) -> float | None:
    """The short number that an end comes right after, as cuts behind a value that repeats do."""
    before = float(np.nextafter(end, -np.inf))
    return before if len(repr(before)) + 4 < len(repr(float(end))) else None


def as_floats(outputs: Values) -> Floats:
    """Outputs (n, *shape) as numbers (n, entries) that may be added and squared."""
    flat = outputs.reshape(len(outputs), int(np.prod(outputs.shape[1:])))
    return np.clip(flat.astype(np.float64), -_LARGE, _LARGE)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Which of the outcomes seen in a sample an output, or some ``entries`` of it, is; else -1.

    ``marks`` holds for each entry of an output what tells its values apart: the values themselves,
    sorted, or for floats cuts between them, so that an error of rounding makes no other outcome.
    An outcome's key is the sum of its entries' positions times ``weights``, modulo 2^64; two
    outcomes of one key would be one to the rule, which stays valid.
    """

    plain: ClassVar[bool] = True
    marks: tuple[Values, ...]
    weights: NDArray[np.uint64]
    keys: NDArray[np.uint64]
    shown: tuple[tuple[str, ...], ...]
    entries: NDArray[np.intp] | None = None
    parts: tuple[tuple[int, ...], ...] = ()
    names: tuple[str, ...] = ()

    @classmethod
    def seen(
        cls,
        outputs: Values,
        most: int,
        parts: tuple[tuple[int, ...], ...] = (),
        names: EntryNames | None = None,
    ) -> Outcome | None:
        """The outcomes among ``outputs``, or among those ``parts`` of them that are named.

        None if there are more than ``most``.
        """
        entries = np.array([entry for part in parts for entry in part]) if parts else None
        flat = _columns(outputs, entries)
        found = []
        for column in flat.T:
            values = np.unique(column)
            if len(values) > most:
                return None
            found.append(cuts_between(values) if column.dtype.kind == "f" else values)
        marks = tuple(found)
        rng = np.random.default_rng(0)
        weights = rng.integers(2**62, size=len(marks), dtype=np.uint64) * np.uint64(2)
        weights += np.uint64(1)
        if len(marks) == 1:
            weights[:] = 1
        keys, where = np.unique(_keys(flat, marks, weights), return_index=True)
        if len(keys) > most:
            return None
        if names is None or not parts:
            rows = flat[where] if outputs.ndim > 1 else flat[where, 0]
            return cls(marks, weights, keys, tuple((str(row.tolist()),) for row in rows))
        whole = outputs[where].reshape(len(where), -1)
        shown = tuple(tuple(names.value(row, part) for part in parts) for row in whole)
        called = tuple(names.part(part) for part in parts)
        return cls(marks, weights, keys, shown, entries, parts, called)

    @property
    def cuts(self) -> Floats:
        """One part for each outcome, after a part for those unseen."""
        return np.arange(len(self.keys), dtype=np.float64) - 0.5

    def of(self, outputs: Values) -> Values:
        """Outputs (n, *shape) to positions (n,) among the outcomes seen."""
        flat = _columns(outputs, self.entries)
        if len(self.marks) == 1 and self.marks[0].dtype == flat.dtype and len(self.keys) <= _FEW:
            return self._one_of_few(flat[:, 0])
        if self.marks[0].dtype.kind == "U" and flat.dtype.kind != "U":
            flat = flat.astype(str)
        keys = _keys(flat, self.marks, self.weights)
        found = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        known = self.keys[found] == keys
        for column, mark in zip(flat.T, self.marks, strict=True):
            if mark.dtype.kind != "f":
                known &= mark[np.minimum(np.searchsorted(mark, column), len(mark) - 1)] == column
        return np.where(known, found, -1)

    def _one_of_few(self, column: Values) -> Values:
        positions = np.full(len(column), -1, dtype=np.int8)
        keys = _keys(self.marks[0][:, None], self.marks, self.weights)
        for value, position in zip(
            self.marks[0], np.searchsorted(self.keys, keys).tolist(), strict=True
        ):
            positions += (column == value).view(np.int8) * np.int8(position + 1)
        return positions

    def words(self, low: float, high: float) -> str:
        """The outcomes with positions in an interval, by name."""
        start = 0 if np.isinf(low) else max(0, math.ceil(low))
        shown = self.shown[start : None if np.isinf(high) else max(0, math.ceil(high))]
        if self.names and len(shown) == 1:
            return " and ".join(f"{n} = {v}" for n, v in zip(self.names, shown[0], strict=True))
        single = len(self.names) < 2
        values = [row[0] if single else f"({', '.join(row)})" for row in shown[:5]]
        name = (self.names or ("output",))[0] if single else f"({', '.join(self.names)})"
        more = f" and {len(shown) - 5} more" if len(shown) > 5 else ""
        return f"{name} in {{{', '.join(values)}{more}}}"


Statistic = Number | Outcome
"""A number for each output, chosen before the outputs that count were drawn.

``of`` computes it. ``cuts`` are its own, increasing, the part before the first for outputs not to
be guessed on; None if it is to be cut where values suggest it. ``plain`` says that it is read off
the output, ``words`` names the outputs whose statistic is in an interval.
"""


def _columns(outputs: Values, entries: NDArray[np.intp] | None) -> Values:
    """Outputs (n, *shape) as (n, entries), all of them or those named."""
    flat = outputs.reshape(len(outputs), -1)
    return flat if entries is None else flat[:, entries]


def _keys(
    flat: Values, marks: tuple[Values, ...], weights: NDArray[np.uint64]
) -> NDArray[np.uint64]:
    keys = np.zeros(len(flat), dtype=np.uint64)
    for column, mark, weight in zip(flat.T, marks, weights, strict=True):
        keys += np.searchsorted(mark, column, side="left").astype(np.uint64) * weight
    return keys


def step_of(values: Floats) -> float:
    """The distance of numbers (n,) that lie on a grid: 1 for whole ones, 0 where there is none."""
    different = np.unique(values[np.isfinite(values)])
    if np.all(different == np.rint(different)):
        return 1.0
    if len(different) < _FEWEST_ON_GRID:
        return 0.0
    steps = (different - different[0]) / np.diff(different).min()
    if steps[-1] > _FINEST or np.abs(steps - np.rint(steps)).max() > 1e-4:
        return 0.0
    return float((different[-1] - different[0]) / np.rint(steps[-1]))


def place_in_period(sample: Floats) -> Number:
    """Where numbers lie within ``_PERIOD`` steps of their grid, or after the point if on none.

    What a fine-grained output carries in its low digits, and no interval of it shows. The grid is
    that of ``sample`` (n,).
    """
    step = step_of(sample[:_SAMPLED])
    if step == 0:
        return Number("fractional part of the output", lambda x: _modulo(as_floats(x)[:, 0], 1.0))
    if step == 1:
        return Number(f"output modulo {_PERIOD}", lambda x: _modulo(x[:, 0], _PERIOD))
    low = sample[np.abs(sample) < _LARGE].min()
    return Number(
        f"(output - {low:.6g}) / {step:.6g}, rounded, modulo {_PERIOD}",
        lambda x: _modulo(np.rint((as_floats(x)[:, 0] - low) / step), _PERIOD),
    )


def _modulo(x: Values, period: float) -> Values:
    """Remainders, and -1 of infinities."""
    if x.dtype.kind != "f":
        whole: Values = x if x.itemsize == 8 else x.astype(np.int64)
        return np.asarray(np.mod(whole, period))
    return np.where(np.isfinite(x), np.mod(np.where(np.isfinite(x), x, 0.0), period), -1.0)


def bits(sample: Values) -> list[Number]:
    """The bits of whole numbers (n, ...) of one entry that vary in ``sample``: what is packed."""
    flat = sample.reshape(-1)
    varying = int(np.bitwise_or.reduce(flat ^ flat[0]).astype(np.int64))
    return [
        Number(f"bit {place} of the output", partial(_bit, place=place))
        for place in range(63)
        if varying >> place & 1
    ]


def _bit(x: Values, place: int) -> Values:
    return x[:, 0].astype(np.int64) >> place & 1


def plain_numbers(width: int) -> list[Number]:
    """Statistics of outputs of so many entries that need no sample: the number itself, or sums."""
    if width == 1:
        return [Number("output", lambda x: x[:, 0])]
    return [
        Number("sum of the output", lambda x: x.sum(axis=1)),
        Number("sum of |output|", lambda x: np.abs(x).sum(axis=1)),
        Number("largest entry", lambda x: x.max(axis=1)),
        Number("smallest entry", lambda x: x.min(axis=1)),
        Number("number of entries that are not 0", lambda x: np.count_nonzero(x, axis=1)),
        Number(
            "number of entries that equal the next",
            lambda x: np.count_nonzero(x[:, 1:] == x[:, :-1], axis=1),
        ),
        Number(
            "sum of |differences of neighbouring entries|",
            lambda x: np.abs(np.diff(x, axis=1)).sum(axis=1),
        ),
    ]


def histogram(values: NDArray[Any], cuts: Floats) -> NDArray[np.int64]:
    """Counts of ``values`` in the parts between ``cuts``: (len(cuts) + 1,)."""
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


def _excess(counts: NDArray[np.int64]) -> Floats:
    """How far a value's count stands out of its neighbours', in deviations: an atom in a grid."""
    around = np.append(np.ones(_ABOUT), [0.0, *np.ones(_ABOUT)])
    near = np.maximum(1.0, np.convolve(np.ones(len(counts)), around, "same"))
    usual = np.convolve(counts, around, "same") / near
    return np.round((counts - usual) / np.sqrt(usual + 1.0), 9)


def has_atoms(values: NDArray[Any]) -> bool:
    """Whether some value came up so often that it is cut out of a range; see ``cuts_between``."""
    return int(np.unique(values, return_counts=True)[1].max(initial=0)) >= _REPEATED


def cuts_between(values: NDArray[Any]) -> Floats:
    """Cuts that tell the values apart if they are few, or quantiles, dense in both tails."""
    different = np.unique(values).astype(np.float64)
    finite = different[np.isfinite(different)]
    gaps = np.diff(finite)
    apart = gaps > ROUNDING * np.maximum(np.abs(finite[1:]), np.abs(finite[:-1]))
    if np.count_nonzero(apart) < _MOST_VALUES:
        cuts = (finite[:-1] + gaps / 2)[apart]
    else:
        ordered = np.sort(values)
        n = len(ordered)
        tail = np.unique(np.geomspace(1, n / 16, 48).astype(np.int64))
        ranks = np.concatenate([tail, np.linspace(n / 16, n - n / 16, 64).astype(int), n - tail])
        counts = np.unique(values, return_counts=True)[1]
        ranks_by = (counts, _excess(counts))
        often = np.unique([np.argsort(-each, kind="stable")[:_ATOMS] for each in ranks_by])
        common = different[often[counts[often] >= _REPEATED]]
        cuts = np.concatenate([ordered[ranks], common, np.nextafter(common, np.inf)])
        cuts = np.unique(cuts[np.isfinite(cuts)]).astype(np.float64)
    if len(finite) == 0:
        return np.zeros(1)
    beyond = [finite[-1] + max(1.0, abs(finite[-1]))] if different[-1] == np.inf else []
    before = [finite[0] - max(1.0, abs(finite[0]))] if different[0] == -np.inf else []
    return np.concatenate([before, cuts, beyond])


STEP = 2.0**-32
"""Of numbers of size 1, far above what the order of a sum changes, far below what data tell."""
_LEAST = 1e-250
"""Of sizes: quotients by a step stay finite."""


def rounded(values: ArrayLike, size: ArrayLike = 1.0) -> NDArray[Any]:
    """``values`` in steps of 2^-32 of the power of two at or above ``size``.

    Linear algebra adds in an order that the processor sets, so the last bits of a sum are the
    machine's. Scores are rounded before a rule is chosen by them, and before they are compared with
    its cuts. Infinite numbers and NaN stay as they are. Arrays broadcast.
    """
    step = STEP * np.exp2(np.ceil(np.log2(np.clip(np.asarray(size, float), _LEAST, 1.0 / _LEAST))))
    return np.asarray(np.rint(np.asarray(values) / step) * step + 0.0)


_STEPS = 30
_PENALTY = 1e-4
_LONGEST_STEP = 4.0
_SETTLED = 1e-7


def fitted(features: Floats, first: Floats, second: Floats) -> Floats:
    """Weights (f,) of ``features`` (n, f), whose rows came ``first`` and ``second`` times (n,).

    Maximum likelihood with a slight ridge, by Newton's method with limited steps, so that worlds
    which a plane separates have an answer as well.
    """
    total = first + second
    share = total / total.sum()
    scale = np.maximum(np.sqrt(share @ (features * features)), 1e-12)
    x = features / scale
    target = first / total.sum()
    weights = np.zeros(x.shape[1])
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


# What learning may cost: outputs of each input, entries of an output.
_ROWS = 10_000
_ENTRIES = 32
_ALONE = 8
# Different values that are counted, and standard errors by which the log-odds of one must differ.
_VALUES, _SURE = 64, 4.0
# Entries beyond this many spreads from the middle are brought back, infinite ones included.
_REACH = 1e6


def learned_scores(first: Floats, second: Floats, names: EntryNames) -> Iterator[Number]:
    """Statistics for outputs (n, d) of two worlds, cheap ones before a trained classifier.

    The entries that differ most, alone and summed with the sign of their difference; the projection
    on the difference of means, which is exact for noise of one size in any direction; how often
    values come up in whatever place, as in a list of items, summed with their log-odds; a logistic
    regression on entries, squares, and entries clipped to where the two worlds' outputs centre,
    which is exact for Gaussian and Laplace noise and for bits; gradient boosting for the rest.
    """
    first, second = first[:_ROWS], second[:_ROWS]
    both = np.concatenate([first, second])
    middle = np.median(both, axis=0)
    low, high = np.quantile(both, [0.01, 0.99], axis=0)
    spread = np.clip(both, low, high).std(axis=0)
    spread = np.where(spread > 0, spread, np.maximum(np.ptp(both, axis=0), 1e-300))
    spread = np.exp2(np.rint(np.log2(spread)))  # entries of one spread keep one, and bits stay few
    a, b = _standard(first, middle, spread), _standard(second, middle, spread)

    def score(name: str, entries: NDArray[np.intp], compute: Callable[[Floats], Floats]) -> Number:
        """A function of some entries, standardized, larger for the first world."""
        center, scale = middle[entries], spread[entries]
        return Number(
            name, lambda flat: rounded(compute(_standard(flat[:, entries], center, scale)))
        )

    shift = a.mean(axis=0) - b.mean(axis=0)
    squares = (a * a).mean(axis=0) - (b * b).mean(axis=0)
    squares /= np.maximum(np.concatenate([a * a, b * b]).std(axis=0), 1e-9)
    zeros = (first == 0).mean(axis=0) - (second == 0).mean(axis=0)
    apart = rounded(np.maximum(np.abs(shift), np.maximum(np.abs(squares), 2 * np.abs(zeros))))
    order = np.argsort(-apart, kind="stable")
    for entry in order[:_ALONE].tolist():
        yield Number(names.of(entry), itemgetter((slice(None), entry)), plain=True)
    by_shift = np.argsort(-rounded(np.abs(shift)), kind="stable")
    for count in sorted({2**i for i in range(1, 17) if 2**i < len(shift)} | {len(shift)}):
        chosen = np.sort(by_shift[:count])
        sign = np.sign(shift[chosen])
        yield score(f"signed sum of {count} entries", chosen, partial(_weighted, weights=sign))
    if len(shift) > 1:
        every = np.arange(len(shift))
        variance = np.maximum((a.var(axis=0) + b.var(axis=0)) / 2.0, 1e-9)
        weights = shift / variance
        weights = rounded(weights / np.abs(weights).max(initial=1e-300))
        yield score(
            "projection on the difference of means", every, partial(_weighted, weights=weights)
        )
        if (values := np.unique(both)).size <= _VALUES:
            yield _items(first, second, values)
    chosen = np.sort(order[:_ENTRIES])
    a, b = a[:, chosen], b[:, chosen]
    features = _features(np.median(a, axis=0), np.median(b, axis=0))
    counts = np.repeat([1.0, 0.0], [len(a), len(b)])
    weights = rounded(fitted(features(np.concatenate([a, b])), counts, 1.0 - counts))
    yield score(
        f"log-odds learnt on {len(chosen)} entries", chosen, lambda x: features(x) @ weights
    )
    yield score(f"gradient boosting on {len(chosen)} entries", chosen, boosted(a, b))


def _items(first: Floats, second: Floats, values: Floats) -> Number:
    """The sum of log-odds of the values that an output shows, in whatever place."""

    def shown(flat: Floats) -> Floats:
        return np.stack([(flat == value).sum(axis=1) for value in values], axis=1)

    one, other = (shown(world).sum(axis=0) + 0.5 for world in (first, second))
    weights = np.log(one / one.sum()) - np.log(other / other.sum())
    error = np.sqrt(1.0 / one + 1.0 / other)
    weights = np.where(np.abs(weights) > _SURE * error, weights, 0.0)
    names = ", ".join(f"{value:g}" for value in values[np.argsort(-np.abs(weights))][:2])
    return Number(
        f"log-odds of the values shown ({names} above all)", lambda x: rounded(shown(x) @ weights)
    )


def _weighted(x: Floats, weights: Floats) -> Floats:
    return x @ weights


def _standard(x: Floats, middle: Floats, spread: Floats) -> Floats:
    with np.errstate(over="ignore"):
        return rounded(np.clip((x - middle) / spread, -_REACH, _REACH))


def _features(one: Floats, other: Floats) -> Callable[[Floats], Floats]:
    low, high = np.minimum(one, other), np.maximum(one, other)
    differ = high > low

    def features(x: Floats) -> Floats:
        clipped = np.clip(x, low, high)[:, differ]
        return np.concatenate([np.ones((len(x), 1)), x, x * x, clipped], axis=1)

    return features


def boosted(first: Floats, second: Floats) -> Callable[[Floats], Floats]:
    """Log-odds of the first world by gradient-boosted trees, fitted to (n, f) of each."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    model = HistGradientBoostingClassifier(
        max_iter=40, max_leaf_nodes=15, min_samples_leaf=40, early_stopping=False, random_state=0
    )
    labels = np.repeat([1, 0], [len(first), len(second)])
    with one_thread(None):  # its threads wait for one another longer than they work
        model.fit(np.concatenate([first, second]), labels)

    def score(x: Floats) -> Floats:
        with one_thread(None):
            return np.asarray(model.decision_function(x))

    return score
