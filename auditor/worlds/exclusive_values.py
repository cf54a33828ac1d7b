"""Decision rules that guess by values which occurred under only one of two neighbouring inputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec_auditor.auditor.worlds.decision_rules import (
    FIRST,
    NEITHER,
    SECOND,
    CandidateRule,
    RuleTestPlan,
    choose_best_rule,
)
from fedrec_auditor.auditor.worlds.statistics import FLOAT_TOLERANCE, EntryNamer, as_floats

_BLOCK = 1 << 22


def hash_rows(rows: NDArray[Any]) -> NDArray[np.uint64]:
    """Returns a 64-bit hash (n,) of each of ``rows`` (n, d) of integers, booleans or strings.

    Two different rows have equal hashes with a probability of at most a small multiple of 2^-64.
    The hash of a single number is the number. Source: Carter and Wegman 1979, multilinear hashing.
    """
    # The hash is the sum of the entries, or of their characters, each times a random 64-bit weight
    # of its place, modulo 2^64. Padding strings to another width adds zeros, which do not change
    # it.
    n, d = rows.shape
    if rows.dtype.kind != "U":
        numbers = rows.astype(np.int64).view(np.uint64)
        return numbers[:, 0] if d == 1 else _sum_products(numbers, _draw_weights(0, d))
    letters = np.ascontiguousarray(rows).view(np.uint32).reshape(n, d, -1)
    used = letters.shape[2]
    found = np.zeros(n, dtype=np.uint64)
    for entry in range(d):
        found += _sum_products(letters[:, entry], _draw_weights(entry, used))
    return found


def _draw_weights(entry: int, count: int) -> NDArray[np.uint64]:
    """Returns odd random weights (count,) for a hash of the entry with index ``entry``.

    The first weights do not depend on ``count``.
    """
    rng = np.random.Generator(np.random.Philox(key=entry + 1))
    return rng.integers(2**64, size=count, dtype=np.uint64, endpoint=False) | np.uint64(1)


def _sum_products(numbers: NDArray[Any], weights: NDArray[np.uint64]) -> NDArray[np.uint64]:
    step = max(1, _BLOCK // max(1, len(weights)))
    parts = [
        numbers[start : start + step].astype(np.uint64) @ weights
        for start in range(0, len(numbers), step)
    ]
    return np.concatenate([np.zeros(0, dtype=np.uint64), *parts])


# Tried minimum numbers of occurrences of a value in one world; the best number is selected.
_MIN_COUNTS = (1, 2, 4, 8)
# Number of distinct values above which values that occurred once are omitted.
_SINGLES = 4096
# Maximum number of entries that are examined separately, and of numbers sorted for all entries.
_ENTRIES, _SORTED = 64, 1 << 23
# Number of wrong guesses that is added to the counts.
_UNSEEN = 0.5
# A range extends beyond the last value by the distance between the last and the value `_BEFORE`
# positions before it.
_BEFORE = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class ExclusiveSet:
    """Values that occurred in only one of two worlds (inputs), with the world of each value.

    entry_index: index of the entry of an output that takes these values; None for whole outputs.
    name: name of the entry or output.
    value_lower_ends, value_upper_ends: lower and upper end of each value (m,), both increasing.
        They differ only for floats, which count as one value if they differ by rounding only.
    world_by_value: the world of each value (m,): FIRST (1) or SECOND (-1).
    examples_by_world: descriptions of some values of each world, by FIRST and SECOND.
    """

    entry_index: int | None
    name: str
    value_lower_ends: NDArray[Any]
    value_upper_ends: NDArray[Any]
    world_by_value: NDArray[np.int8]
    examples_by_world: dict[int, tuple[str, ...]]

    def __len__(self) -> int:
        return len(self.value_lower_ends)

    def guess(self, outputs: NDArray[Any]) -> NDArray[np.int8]:
        """Returns the guess (n,) for each of ``outputs``: the only world in which its value
        occurred.

        The guess is FIRST (1) or SECOND (-1), or NEITHER (0) if the value is not in the set.
        """
        if not len(self):
            return np.zeros(len(outputs), dtype=np.int8)
        keys = _make_keys(outputs, self.entry_index)
        place = np.maximum(np.searchsorted(self.value_lower_ends, keys, side="right") - 1, 0)
        inside = (self.value_lower_ends[place] <= keys) & (keys <= self.value_upper_ends[place])
        return np.where(inside, self.world_by_value[place], NEITHER).astype(np.int8)

    def describe(self, world: int) -> str:
        """Describes in words the values that occurred in one world (input) only.

        ``world``: the world, FIRST (1) or SECOND (-1).
        """
        names = self.examples_by_world[world]
        more = ", ..." if len(names) > 3 else ""
        return f"{self.name} in {{{', '.join(names[:3])}{more}}}" if names else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeRule:
    """A rule that guesses an input if an entry of the output lies in the range of this input only.

    entry_index: index of the entry of an output that is compared with the ranges.
    entry_name: name of the entry.
    world_ranges: ends (low, high) of the entry's range under each of two inputs (worlds).
    """

    entry_index: int
    entry_name: str
    world_ranges: tuple[tuple[float, float], tuple[float, float]]

    def __len__(self) -> int:
        return len(self.world_ranges)

    def guess(self, outputs: NDArray[Any]) -> NDArray[np.int8]:
        """Returns the guess (n,) for each output: the only input (world) whose range contains the
        output's entry ``entry_index``.

        The guess is FIRST (1) or SECOND (-1), or NEITHER (0) if both ranges or no range contain the
        entry.
        """
        values = as_floats(outputs)[:, self.entry_index]
        first, second = ((values < low) | (values > high) for low, high in self.world_ranges)
        sides = np.where(second, np.int8(FIRST), np.int8(SECOND))
        return np.where(first != second, sides, NEITHER).astype(np.int8)

    def describe(self, world: int) -> str:
        """Describes in words the values of the entry for which a world (input) may be guessed.

        ``world``: the guessed world, FIRST (1) or SECOND (-1).
        """
        low, high = self.world_ranges[1 if world == FIRST else 0]
        return f"{self.entry_name} outside of [{low:.6g}, {high:.6g}]"


@dataclass(frozen=True, slots=True)
class ExclusiveRule:
    """A rule that guesses an input (world) if a value of the output occurred under this input only.

    The rule abstains if there is no such value, and if values of the output disagree.

    parts: sets of values and ranges, each of which may guess a world.
    guessed_worlds: the worlds that the rule may guess: FIRST (1) and SECOND (-1).
    """

    parts: tuple[ExclusiveSet | RangeRule, ...]

    guessed_worlds = frozenset({FIRST, SECOND})

    def count_guesses(self, outputs: NDArray[Any]) -> NDArray[np.int64]:
        """Returns how many ``outputs`` (n, *shape) are guessed to come from each of two inputs,
        (2,).
        """
        votes = np.stack([part.guess(outputs) for part in self.parts])
        first, second = (votes == FIRST).any(axis=0), (votes == SECOND).any(axis=0)
        return np.array([np.count_nonzero(first & ~second), np.count_nonzero(second & ~first)])

    def describe(self, world: int) -> str:
        """Describes in words the outputs on which the rule guesses one world (input).

        ``world``: the guessed world, FIRST (1) or SECOND (-1).
        """
        texts = [words for part in self.parts if (words := part.describe(world))]
        more = f", or {len(texts) - 2} more parts" if len(texts) > 2 else ""
        return "occurred under one input only: " + (" or ".join(texts[:2]) or "nothing") + more


def find_exclusive_rules(
    outputs: Sequence[NDArray[Any]],
    pairs: Sequence[tuple[int, int]],
    plan: RuleTestPlan,
    namer: EntryNamer | None = None,
) -> dict[tuple[int, int], CandidateRule[ExclusiveRule]]:
    """Returns, for each pair of inputs (worlds), the best rule on values that occurred in only one
    of them.

    The best rule has the largest predicted lower bound on epsilon.

    outputs: outputs of each world that select rules, (n, *shape) each. At most 64 entries of an
        output are examined.
    pairs: pairs of indices of worlds. The result omits a pair without a rule.
    plan: settings of the later test, from which the bound of a rule is predicted.
    namer: gives names to the entries of an output; None for default names.

    A rule guesses a world by one of these criteria:

    - values of entries, or the whole output, occurred in this world only;
    - an entry lies in the range of this world only. The ranges extend slightly beyond the values
      that occurred.
    """
    namer = namer or EntryNamer(outputs[0].shape[1:])
    readings = list(_count_values(outputs, namer))
    best_rules = {}
    for a, b in pairs:
        options = [*_propose_sets(readings, outputs, a, b, plan)]
        options += _propose_ranges(outputs, a, b, plan, namer)
        if not options and readings:  # without a promising set: all values of one world only
            whole = readings[0].make_set(a, b, readings[0].min_count, outputs)
            options = [CandidateRule(a, b, 0.0, ExclusiveRule((whole,)))]
        if best := choose_best_rule(each for each in options if any(map(len, each.rule.parts))):
            best_rules[a, b] = best
    return best_rules


def _propose_sets(
    readings: Sequence[_ValueCounts],
    outputs: Sequence[NDArray[Any]],
    a: int,
    b: int,
    plan: RuleTestPlan,
) -> Iterator[CandidateRule[ExclusiveRule]]:
    """Yields rules on values that occurred in only one of the worlds (inputs) ``a`` and ``b``.

    ``readings``: counts of the values of single entries and of whole outputs.
    """
    n_draws = 2 * len(outputs[0])
    for min_count in _MIN_COUNTS:
        good: list[tuple[ExclusiveSet, int, int]] = []
        for reading in readings:
            right, wrong = reading.count_guesses(a, b, min_count)
            if min_count >= reading.min_count and right > 3 * wrong:
                good.append((reading.make_set(a, b, min_count, outputs), right, wrong))
        # One rule per promising set, and one rule for all promising sets together.
        for some in [*([each] for each in good), *([good] if len(good) > 1 else [])]:
            parts, rights, wrongs = zip(*some, strict=True)
            expected = _predict(sum(rights), sum(wrongs), n_draws, plan)
            yield CandidateRule(a, b, expected, ExclusiveRule(parts))


def _predict(right: float, wrong: float, seen: int, plan: RuleTestPlan) -> float:
    """Predicts the lower bound on epsilon of a rule with ``right`` right and ``wrong`` wrong
    guesses.

    ``seen``: number of draws in which the guesses were counted.
    ``plan``: number of draws and error of the later test.
    """
    bold = replace(plan, margin=0.0)
    return max(0.0, float(bold.predict_bound(right, wrong, seen, both=True, unseen=_UNSEEN)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _ValueCounts:
    """Counts, in each world (input), of the values of one entry of the outputs, or of whole
    outputs.

    entry: index of the entry; None for whole outputs.
    namer: gives names to the entries.
    low, high: increasing lower and upper ends of each value (m,).
    first_seen: index of the first output with each value (m,), counted through all worlds.
    counts: number of occurrences of each value in each world, (worlds, m).
    """

    entry: int | None
    namer: EntryNamer
    low: NDArray[Any]
    high: NDArray[Any]
    first_seen: NDArray[np.int64]
    counts: NDArray[np.int64]

    @property
    def min_count(self) -> int:
        """Minimum number of occurrences of a value in a rule: 1, or 2 if over 4096 values exist."""
        return 1 if len(self.low) <= _SINGLES else 2

    def count_guesses(self, a: int, b: int, min_count: int) -> tuple[int, int]:
        """Returns numbers of right and wrong guesses between worlds ``a`` and ``b``, by
        leave-one-out.

        Each draw is guessed by the values that occur in one world only, at least ``min_count``
        times, among all other draws.
        """
        right = wrong = 0
        for here, there in ((self.counts[a], self.counts[b]), (self.counts[b], self.counts[a])):
            right += int(here[(there == 0) & (here > min_count)].sum())
            wrong += int(np.count_nonzero((there == 1) & (here >= min_count)))
        return right, wrong

    def make_set(self, a: int, b: int, least: int, outputs: Sequence[NDArray[Any]]) -> ExclusiveSet:
        one, other = self.counts[a], self.counts[b]
        first, second = (one >= least) & (other == 0), (other >= least) & (one == 0)
        either = first | second
        examples = {}
        for side, chosen, counts in ((FIRST, first, one), (SECOND, second, other)):
            often = np.flatnonzero(chosen)
            often = often[np.argsort(-counts[often], kind="stable")][:4]
            examples[side] = tuple(self._describe(self.first_seen[k], outputs) for k in often)
        return ExclusiveSet(
            entry_index=self.entry,
            name="output" if self.part_entries is None else self.namer.name_part(self.part_entries),
            value_lower_ends=self.low[either],
            value_upper_ends=self.high[either],
            world_by_value=np.where(first[either], np.int8(FIRST), np.int8(SECOND)),
            examples_by_world=examples,
        )

    @property
    def part_entries(self) -> tuple[int, ...] | None:
        """Positions of the entries that encode the same field as this entry; None for whole
        outputs.
        """
        return next((part for part in self.namer.entries_by_part if self.entry in part), None)

    def _describe(self, draw: int, outputs: Sequence[NDArray[Any]]) -> str:
        world, row = divmod(int(draw), len(outputs[0]))
        output, part = outputs[world][row], self.part_entries
        return str(output.tolist()) if part is None else self.namer.describe(output.ravel(), part)


def _count_values(outputs: Sequence[NDArray[Any]], namer: EntryNamer) -> Iterator[_ValueCounts]:
    """Yields counts of the values of whole outputs, and of the values of at most 64 single entries.

    Whole outputs that are vectors of floats are omitted.
    """
    width = int(np.prod(outputs[0].shape[1:]))
    if not width:
        return
    floats = any(each.dtype.kind == "f" for each in outputs)
    if not floats or width == 1:
        yield _count(outputs, None if width > 1 or not floats else 0, namer)
    if width > 1:
        most = max(1, _SORTED // (len(outputs) * len(outputs[0])))
        for entry in np.unique(np.linspace(0, width - 1, min(width, _ENTRIES, most)).astype(int)):
            yield _count(outputs, int(entry), namer)


def _count(outputs: Sequence[NDArray[Any]], entry: int | None, namer: EntryNamer) -> _ValueCounts:
    keys = np.concatenate([_make_keys(each, entry) for each in outputs])
    values, first_seen, group = np.unique(keys, return_index=True, return_inverse=True)
    low = high = values
    if values.dtype.kind == "f":
        slack = FLOAT_TOLERANCE * np.abs(values)
        starts = np.append(True, np.diff(values) > slack[1:])
        block = np.cumsum(starts) - 1
        ends = np.append(np.flatnonzero(starts)[1:] - 1, len(values) - 1)
        low, high = (values - slack / 2)[starts], (values + slack / 2)[ends]
        first_seen, group = first_seen[starts], block[group]
    groups = group.reshape(len(outputs), -1)
    counts = np.stack([np.bincount(row, minlength=len(low)) for row in groups])
    return _ValueCounts(
        entry=entry, namer=namer, low=low, high=high, first_seen=first_seen, counts=counts
    )


def _make_keys(outputs: NDArray[Any], entry: int | None) -> NDArray[Any]:
    """Returns keys (n,) that identify the values of one entry, or whole outputs if it is None.

    A key is a number itself, or a hash.
    """
    flat = outputs.reshape(len(outputs), -1)
    if entry is None:
        return hash_rows(flat)
    column = flat[:, entry : entry + 1]
    return as_floats(column)[:, 0] if column.dtype.kind == "f" else hash_rows(column)


def _propose_ranges(
    outputs: Sequence[NDArray[Any]], a: int, b: int, plan: RuleTestPlan, namer: EntryNamer
) -> Iterator[CandidateRule[ExclusiveRule]]:
    """Yields rules on numbers outside the range of world ``a`` or ``b`` (inputs), at most one rule
    for each of the first 64 entries.
    """
    first, second = outputs[a], outputs[b]
    width = int(np.prod(first.shape[1:]))
    if first.dtype.kind not in "iuf" or len(first) < 4 * _BEFORE or not width:
        return
    for entry in range(min(width, _ENTRIES)):
        name = namer.name_entry(entry)
        columns = [as_floats(x.reshape(len(x), -1)[:, entry]).ravel() for x in (first, second)]
        right = wrong = 0
        for start in (0, 1):  # ranges from one half, guesses on the other
            ends = [_find_range(column[start::2]) for column in columns]
            tried = RangeRule(entry_index=0, entry_name=name, world_ranges=(ends[0], ends[1]))
            for column, side in zip(columns, (FIRST, SECOND), strict=True):
                votes = tried.guess(column[1 - start :: 2])
                right += int(np.count_nonzero(votes == side))
                wrong += int(np.count_nonzero(votes == -side))
        if right:
            ends = [_find_range(column) for column in columns]
            whole = RangeRule(entry_index=entry, entry_name=name, world_ranges=(ends[0], ends[1]))
            expected = _predict(right, wrong, len(first) + len(second), plan)
            yield CandidateRule(a, b, expected, ExclusiveRule((whole,)))


def _find_range(values: NDArray[np.float64]) -> tuple[float, float]:
    k = min(_BEFORE, len(values) // 2)
    ordered = np.partition(values, [0, k, len(values) - k - 1, len(values) - 1])
    low, near_low, near_high, high = ordered[[0, k, -k - 1, -1]]
    slack = FLOAT_TOLERANCE * max(abs(float(low)), abs(float(high)))
    return float(2.0 * low - near_low) - slack, float(2.0 * high - near_high) + slack
