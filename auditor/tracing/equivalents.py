"""Python equivalents of functions that call functions or loop: they are interpreted instead.

A generator or a key that is handed to one of these is never seen by compiled code.
"""

from __future__ import annotations

import functools
import itertools
from typing import Any


def each_map(function: Any, *lines: Any) -> Any:
    """``map``."""
    for row in zip(*lines, strict=False):
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
    """``any``, without itself."""
    for entry in entries:  # noqa: SIM110
        if entry:
            return True
    return False


def all_of(entries: Any) -> Any:
    """``all``."""
    return not any_of(not entry for entry in entries)


def reduced(function: Any, entries: Any, *start: Any) -> Any:
    """``functools.reduce``."""
    line = iter(entries)
    total = start[0] if start else next(line)
    for entry in line:
        total = function(total, entry)
    return total


def sorted_by(entries: Any, key: Any, reverse: Any = False) -> Any:
    """``sorted`` with a key; entries of equal keys keep their order."""
    entries = list(entries)
    places = [(key(entry), -k if reverse else k) for k, entry in enumerate(entries)]
    return [entries[abs(place)] for _, place in sorted(places, reverse=reverse)]


def extreme_by(entries: Any, key: Any, is_better: Any) -> Any:
    """``min`` and ``max`` with a key: the first of the best entries."""
    line = iter(entries)
    best = next(line)
    best_key = key(best)
    for entry in line:
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
    id(functools.reduce): reduced,
}
"""By the identity of the functions for which they stand."""
