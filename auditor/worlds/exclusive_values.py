"""A rule on values that a selection split saw under one input and never under another."""

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
    Candidate,
    SampleBudget,
    first_best,
)
from fedrec_auditor.auditor.worlds.statistics import ROUNDING, EntryNames, as_floats

_BLOCK = 1 << 22


def fingerprints(rows: NDArray[Any]) -> NDArray[np.uint64]:
    """A fingerprint (n,) for each of ``rows`` (n, d) of whole numbers, booleans or words.

    One number is its own. Else the sum of its entries, or of their characters, each times a random
    64-bit weight of its place, modulo 2^64 (Carter and Wegman 1979, multilinear hashing): padding
    of words to another width changes nothing, and two different rows agree with probability 2^-64
    times a small power of 2.
    """
    n, d = rows.shape
    if rows.dtype.kind != "U":
        numbers = rows.astype(np.int64).view(np.uint64)
        return numbers[:, 0] if d == 1 else _summed(numbers, _weights(0, d))
    letters = np.ascontiguousarray(rows).view(np.uint32).reshape(n, d, -1)
    used = letters.shape[2]
    found = np.zeros(n, dtype=np.uint64)
    for entry in range(d):
        found += _summed(letters[:, entry], _weights(entry, used))
    return found


def _weights(entry: int, count: int) -> NDArray[np.uint64]:
    """Odd weights, the same for the same entry, however many are asked for."""
    rng = np.random.Generator(np.random.Philox(key=entry + 1))
    return rng.integers(2**64, size=count, dtype=np.uint64, endpoint=False) | np.uint64(1)


def _summed(numbers: NDArray[Any], weights: NDArray[np.uint64]) -> NDArray[np.uint64]:
    step = max(1, _BLOCK // max(1, len(weights)))
    parts = [
        numbers[start : start + step].astype(np.uint64) @ weights
        for start in range(0, len(numbers), step)
    ]
    return np.concatenate([np.zeros(0, dtype=np.uint64), *parts])


# How often a value must have come up under one input, at the least; the best of these is taken.
_LEAST = (1, 2, 4, 8)
# Of more different values, those that came once are left out.
_SINGLES = 4096
# Entries of an output that are read one by one, and numbers that are sorted for all of them.
_ENTRIES, _SORTED = 64, 1 << 23
# Half of a wrong guess is to be expected of a set that showed none.
_UNSEEN = 0.5
# A range ends as far beyond the last value as the value so many before it lies from the last.
_BEFORE = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Members:
    """Values of one ``entry`` of an output, or of the whole where it is None, and their sides.

    ``low`` (m,) increase; a value is a member from its ``low`` to its ``high``, which are equal
    but for floats, of which those within rounding are one. ``shown`` names members for each side.
    """

    entry: int | None
    name: str
    low: NDArray[Any]
    high: NDArray[Any]
    sides: NDArray[np.int8]
    shown: dict[int, tuple[str, ...]]

    def __len__(self) -> int:
        return len(self.low)

    def votes(self, outputs: NDArray[Any]) -> NDArray[np.int8]:
        """FIRST, SECOND or NEITHER for each of ``outputs`` (n, *shape): (n,)."""
        if not len(self):
            return np.zeros(len(outputs), dtype=np.int8)
        keys = _keys(outputs, self.entry)
        place = np.maximum(np.searchsorted(self.low, keys, side="right") - 1, 0)
        inside = (self.low[place] <= keys) & (keys <= self.high[place])
        return np.where(inside, self.sides[place], NEITHER).astype(np.int8)

    def words(self, side: int) -> str:
        """The members of one side."""
        names = self.shown[side]
        more = ", ..." if len(names) > 3 else ""
        return f"{self.name} in {{{', '.join(names[:3])}{more}}}" if names else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutsideRange:
    """Numbers beyond where those of the other input end: ``ends`` are (low, high) of either."""

    entry: int
    name: str
    ends: tuple[tuple[float, float], tuple[float, float]]

    def __len__(self) -> int:
        return len(self.ends)

    def votes(self, outputs: NDArray[Any]) -> NDArray[np.int8]:
        """See ``Members``; NEITHER beyond both."""
        values = as_floats(outputs)[:, self.entry]
        first, second = ((values < low) | (values > high) for low, high in self.ends)
        sides = np.where(second, np.int8(FIRST), np.int8(SECOND))
        return np.where(first != second, sides, NEITHER).astype(np.int8)

    def words(self, side: int) -> str:
        """The numbers of one side."""
        low, high = self.ends[1 if side == FIRST else 0]
        return f"{self.name} outside of [{low:.6g}, {high:.6g}]"


@dataclass(frozen=True, slots=True)
class ExclusiveRule:
    """Guesses the input under which alone a value was seen, and abstains on all others."""

    parts: tuple[Members | OutsideRange, ...]

    sides = frozenset({FIRST, SECOND})

    def count(self, outputs: NDArray[Any]) -> NDArray[np.int64]:
        """How many outputs are guessed to be of the first world, and of the second: (2,)."""
        votes = np.stack([part.votes(outputs) for part in self.parts])
        first, second = (votes == FIRST).any(axis=0), (votes == SECOND).any(axis=0)
        return np.array([np.count_nonzero(first & ~second), np.count_nonzero(second & ~first)])

    def words(self, side: int) -> str:
        """The outputs on which ``side`` is guessed, in words."""
        said = [words for part in self.parts if (words := part.words(side))]
        more = f", or {len(said) - 2} parts more" if len(said) > 2 else ""
        return "seen under one input only: " + (" or ".join(said[:2]) or "nothing") + more


def exclusive_rules(
    outputs: Sequence[NDArray[Any]],
    pairs: Sequence[tuple[int, int]],
    budget: SampleBudget,
    names: EntryNames | None = None,
) -> dict[tuple[int, int], Candidate[ExclusiveRule]]:
    """For each of ``pairs`` of worlds, the rule with the largest expected bound.

    ``outputs`` (n, *shape) are those of each world in a selection split. A set of values is judged
    by leaving out one draw at a time: the draw is guessed right if its value stays in the set that
    the others make, and wrong if it alone kept its value out of the other input's. Ranges are
    judged crosswise on halves. Values are whole outputs and single entries, of which the best, or
    all that look good together, make the rule.
    """
    names = names or EntryNames(outputs[0].shape[1:])
    readings = list(_readings(outputs, names))
    found = {}
    for a, b in pairs:
        options = [
            *_sets(readings, outputs, a, b, budget),
            *_ranges(outputs, a, b, budget, names),
        ]
        if not options and readings:  # nothing to go by: what was seen once
            whole = readings[0].members(a, b, readings[0].fewest, outputs)
            options = [Candidate(a, b, 0.0, ExclusiveRule((whole,)))]
        if best := first_best(each for each in options if any(map(len, each.rule.parts))):
            found[a, b] = best
    return found


def _sets(
    readings: Sequence[_Reading],
    outputs: Sequence[NDArray[Any]],
    a: int,
    b: int,
    budget: SampleBudget,
) -> Iterator[Candidate[ExclusiveRule]]:
    """Sets of values that came so often under one input: of each reading, and of all together."""
    seen = 2 * len(outputs[0])
    for least in _LEAST:
        good: list[tuple[Members, int, int]] = []
        for reading in readings:
            right, wrong = reading.judged(a, b, least)
            if least >= reading.fewest and right > 3 * wrong:
                good.append((reading.members(a, b, least, outputs), right, wrong))
        for some in [*([each] for each in good), *([good] if len(good) > 1 else [])]:
            parts, rights, wrongs = zip(*some, strict=True)
            yield Candidate(
                a, b, _expected(sum(rights), sum(wrongs), seen, budget), ExclusiveRule(parts)
            )


def _expected(right: float, wrong: float, seen: int, budget: SampleBudget) -> float:
    """The bound to expect if ``seen`` draws held so many right and wrong guesses."""
    bold = replace(budget, caution=0.0)
    return max(0.0, float(bold.expected_bound(right, wrong, seen, both=True, unseen=_UNSEEN)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """The values of one entry, or of whole outputs: how often each came in each world."""

    entry: int | None
    names: EntryNames
    low: NDArray[Any]
    high: NDArray[Any]
    first_seen: NDArray[np.int64]
    counts: NDArray[np.int64]

    @property
    def fewest(self) -> int:
        """How often a value must come: twice where so many differ that fresh ones come near one."""
        return 1 if len(self.low) <= _SINGLES else 2

    def judged(self, a: int, b: int, least: int) -> tuple[int, int]:
        """Right and wrong guesses of draws that were left out one at a time."""
        right = wrong = 0
        for mine, other in ((self.counts[a], self.counts[b]), (self.counts[b], self.counts[a])):
            right += int(mine[(other == 0) & (mine > least)].sum())
            wrong += int(np.count_nonzero((other == 1) & (mine >= least)))
        return right, wrong

    def members(self, a: int, b: int, least: int, outputs: Sequence[NDArray[Any]]) -> Members:
        one, other = self.counts[a], self.counts[b]
        first, second = (one >= least) & (other == 0), (other >= least) & (one == 0)
        either = first | second
        shown = {}
        for side, chosen, counts in ((FIRST, first, one), (SECOND, second, other)):
            often = np.flatnonzero(chosen)
            often = often[np.argsort(-counts[often], kind="stable")][:4]
            shown[side] = tuple(self._name(self.first_seen[k], outputs) for k in often)
        return Members(
            entry=self.entry,
            name="output" if self.part is None else self.names.part(self.part),
            low=self.low[either],
            high=self.high[either],
            sides=np.where(first[either], np.int8(FIRST), np.int8(SECOND)),
            shown=shown,
        )

    @property
    def part(self) -> tuple[int, ...] | None:
        """The entries that this one belongs with; None for whole outputs."""
        return next((part for part in self.names.parts if self.entry in part), None)

    def _name(self, draw: int, outputs: Sequence[NDArray[Any]]) -> str:
        world, row = divmod(int(draw), len(outputs[0]))
        output, part = outputs[world][row], self.part
        return str(output.tolist()) if part is None else self.names.value(output.ravel(), part)


def _readings(outputs: Sequence[NDArray[Any]], names: EntryNames) -> Iterator[_Reading]:
    """Whole outputs, unless they are vectors in floating point, and entries."""
    width = int(np.prod(outputs[0].shape[1:]))
    if not width:
        return
    floats = any(each.dtype.kind == "f" for each in outputs)
    if not floats or width == 1:
        yield _reading(outputs, None if width > 1 or not floats else 0, names)
    if width > 1:
        most = max(1, _SORTED // (len(outputs) * len(outputs[0])))
        for entry in np.unique(np.linspace(0, width - 1, min(width, _ENTRIES, most)).astype(int)):
            yield _reading(outputs, int(entry), names)


def _reading(outputs: Sequence[NDArray[Any]], entry: int | None, names: EntryNames) -> _Reading:
    keys = np.concatenate([_keys(each, entry) for each in outputs])
    values, first_seen, group = np.unique(keys, return_index=True, return_inverse=True)
    low = high = values
    if values.dtype.kind == "f":
        slack = ROUNDING * np.abs(values)
        starts = np.append(True, np.diff(values) > slack[1:])
        block = np.cumsum(starts) - 1
        ends = np.append(np.flatnonzero(starts)[1:] - 1, len(values) - 1)
        low, high = (values - slack / 2)[starts], (values + slack / 2)[ends]
        first_seen, group = first_seen[starts], block[group]
    counts = np.stack(
        [np.bincount(row, minlength=len(low)) for row in group.reshape(len(outputs), -1)]
    )
    return _Reading(
        entry=entry, names=names, low=low, high=high, first_seen=first_seen, counts=counts
    )


def _keys(outputs: NDArray[Any], entry: int | None) -> NDArray[Any]:
    """What tells values apart, (n,): floats as they are, whole numbers, words by a fingerprint."""
    flat = outputs.reshape(len(outputs), -1)
    if entry is None:
        return fingerprints(flat)
    column = flat[:, entry : entry + 1]
    return as_floats(column)[:, 0] if column.dtype.kind == "f" else fingerprints(column)


def _ranges(
    outputs: Sequence[NDArray[Any]], a: int, b: int, budget: SampleBudget, names: EntryNames
) -> Iterator[Candidate[ExclusiveRule]]:
    """Ranges that end under one input, entry by entry."""
    one, other = outputs[a], outputs[b]
    width = int(np.prod(one.shape[1:]))
    if one.dtype.kind not in "iuf" or len(one) < 4 * _BEFORE or not width:
        return
    for entry in range(min(width, _ENTRIES)):
        name = names.of(entry)
        columns = [
            as_floats(each.reshape(len(each), -1)[:, entry]).ravel() for each in (one, other)
        ]
        right = wrong = 0
        for start in (0, 1):  # ends of one half, votes on the other
            ends = [_ends(column[start::2]) for column in columns]
            tried = OutsideRange(entry=0, name=name, ends=(ends[0], ends[1]))
            for column, side in zip(columns, (FIRST, SECOND), strict=True):
                votes = tried.votes(column[1 - start :: 2])
                right += int(np.count_nonzero(votes == side))
                wrong += int(np.count_nonzero(votes == -side))
        if right:
            ends = [_ends(column) for column in columns]
            whole = OutsideRange(entry=entry, name=name, ends=(ends[0], ends[1]))
            expected = _expected(right, wrong, len(one) + len(other), budget)
            yield Candidate(a, b, expected, ExclusiveRule((whole,)))


def _ends(values: NDArray[np.float64]) -> tuple[float, float]:
    k = min(_BEFORE, len(values) // 2)
    ordered = np.partition(values, [0, k, len(values) - k - 1, len(values) - 1])
    low, near_low, near_high, high = ordered[[0, k, -k - 1, -1]]
    slack = ROUNDING * max(abs(float(low)), abs(float(high)))
    return float(2.0 * low - near_low) - slack, float(2.0 * high - near_high) + slack
