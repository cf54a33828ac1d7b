"""Python versions of built-in functions that call functions or loop; the interpreter runs these.

Compiled code therefore never receives an iterator or a key function of the traced code.
"""

from __future__ import annotations

import functools
import itertools
from typing import Any


def each_map(function: Any, *iterables: Any) -> Any:
    """``map``."""
    for row in zip(*iterables, strict=False):
        yield function(*row)


def each_starmap(function: Any, rows: Any) -> Any:
    """``itertools.starmap``."""
    for row in rows:
        yield function(*row)


def each_filter(function: Any, entries: Any) -> Any:
    """``filter``."""
    for entry in entries:
        if entry if function is None else function(entry):
            yield entry


def each_accumulate(entries: Any, function: Any = None) -> Any:
    """``itertools.accumulate``."""
    total: list[Any] = []
    for entry in entries:
        if not total:
            total.append(entry)
        else:
            total[0] = total[0] + entry if function is None else function(total[0], entry)
        yield total[0]


def total_of(entries: Any, start: Any = 0) -> Any:
    """``sum``."""
    for entry in entries:
        start = start + entry
    return start


def any_of(entries: Any) -> Any:
    """``any``, written as a loop."""
    for entry in entries:  # noqa: SIM110
        if entry:
            return True
    return False


def all_of(entries: Any) -> Any:
    """``all``."""
    return not any_of(not entry for entry in entries)


def reduce_by(function: Any, entries: Any, *start: Any) -> Any:
    """``functools.reduce``."""
    iterator = iter(entries)
    total = start[0] if start else next(iterator)
    for entry in iterator:
        total = function(total, entry)
    return total


def sorted_by(entries: Any, key: Any, reverse: Any = False) -> Any:
    """``sorted`` with a key; entries with equal keys keep their order."""
    entries = list(entries)
    places = [(key(entry), -k if reverse else k) for k, entry in enumerate(entries)]
    return [entries[abs(place)] for _, place in sorted(places, reverse=reverse)]


def extreme_by(entries: Any, key: Any, is_better: Any) -> Any:
    """``min`` and ``max`` with a key: returns the first of the best entries."""
    iterator = iter(entries)
    best = next(iterator)
    best_key = key(best)
    for entry in iterator:
        new = key(entry)
        if is_better(new, best_key):
            best, best_key = entry, new
    return best


INTERPRETED = {
    id(map): each_map,
    id(filter): each_filter,
    id(itertools.starmap): each_starmap,
    id(itertools.accumulate): each_accumulate,
    id(sum): total_of,
    id(any): any_of,
    id(all): all_of,
    id(functools.reduce): reduce_by,
}
"""Keyed by the identity of the function that each one replaces."""
