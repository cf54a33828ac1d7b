"""Python equivalents of built-in functions that loop or call functions, such as ``map`` and
``sum``.

Tracing follows these equivalents step by step. Compiled code therefore never receives an iterator
or a key function of the traced code.
"""

from __future__ import annotations

import functools
import itertools
from typing import Any


def python_map(function: Any, *iterables: Any) -> Any:
    """Equivalent of ``map`` in plain Python that tracing can follow; a generator."""
    for row in zip(*iterables, strict=False):
        yield function(*row)


def python_starmap(function: Any, rows: Any) -> Any:
    """Equivalent of ``itertools.starmap`` in plain Python that tracing can follow; a generator."""
    for row in rows:
        yield function(*row)


def python_filter(function: Any, entries: Any) -> Any:
    """Equivalent of ``filter`` in plain Python that tracing can follow; a generator."""
    for entry in entries:
        if entry if function is None else function(entry):
            yield entry


def python_accumulate(entries: Any, function: Any = None) -> Any:
    """Equivalent of ``itertools.accumulate`` in plain Python that tracing can follow.

    Yields the partial results.
    """
    total: list[Any] = []
    for entry in entries:
        if not total:
            total.append(entry)
        else:
            total[0] = total[0] + entry if function is None else function(total[0], entry)
        yield total[0]


def python_sum(entries: Any, start: Any = 0) -> Any:
    """Equivalent of ``sum`` in plain Python that tracing can follow."""
    for entry in entries:
        start = start + entry
    return start


def python_any(entries: Any) -> Any:
    """Equivalent of ``any`` in plain Python that tracing can follow."""
    for entry in entries:  # noqa: SIM110
        if entry:
            return True
    return False


def python_all(entries: Any) -> Any:
    """Equivalent of ``all`` in plain Python that tracing can follow."""
    return not python_any(not entry for entry in entries)


def python_reduce(function: Any, entries: Any, *start: Any) -> Any:
    """Equivalent of ``functools.reduce`` in plain Python that tracing can follow."""
    iterator = iter(entries)
    total = start[0] if start else next(iterator)
    for entry in iterator:
        total = function(total, entry)
    return total


def python_sorted(entries: Any, key: Any, reverse: Any = False) -> Any:
    """Equivalent of ``sorted`` with a key function, in plain Python that tracing can follow.

    Entries with equal keys keep their order.
    """
    entries = list(entries)
    places = [(key(entry), -k if reverse else k) for k, entry in enumerate(entries)]
    return [entries[abs(place)] for _, place in sorted(places, reverse=reverse)]


def find_extreme(entries: Any, key: Any, is_better: Any) -> Any:
    """Equivalent of ``min`` and ``max`` with a key function, in plain Python that tracing can
    follow.

    ``is_better``: comparison of two keys, less-than for ``min`` or greater-than for ``max``. If
    several entries are extreme, the first one is returned.
    """
    iterator = iter(entries)
    best = next(iterator)
    best_key = key(best)
    for entry in iterator:
        new = key(entry)
        if is_better(new, best_key):
            best, best_key = entry, new
    return best


# Python equivalents, by the id of the built-in function that they replace.
EQUIVALENTS = {
    id(map): python_map,
    id(filter): python_filter,
    id(itertools.starmap): python_starmap,
    id(itertools.accumulate): python_accumulate,
    id(sum): python_sum,
    id(any): python_any,
    id(all): python_all,
    id(functools.reduce): python_reduce,
}
