"""How loops are compiled, by numba, which is imported with this module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

# Products may be fused into sums; infinities and NaN keep their meaning.
FUSED = frozenset({"contract", "nsz", "arcp"})
# Sums may be reordered too, so that they vectorize.
REORDERED = FUSED | {"reassoc"}

_Function = TypeVar("_Function", bound=Callable[..., Any])


def compiled(
    *, kept: bool = True, fastmath: frozenset[str] = frozenset(), **options: Any
) -> Callable[[_Function], _Function]:
    """A decorator: machine code that runs without the interpreter's lock.

    It is kept beside the source, or in the user's cache directory where that cannot be written, or
    nowhere: then every process compiles anew. ``options`` are those of ``numba.njit``.

    A function that compiled ones call is not ``kept``: it is a part of its callers, whose last bits
    would differ between a process that reads it and one that compiled it.
    """
    chosen: dict[str, Any] = {"nogil": True, "fastmath": set(fastmath) or False, **options}
    if not kept:
        chosen["forceinline"] = True

    def compile_(function: _Function) -> _Function:
        try:
            made: _Function = numba.njit(cache=kept, **chosen)(function)
        except RuntimeError:  # there is nowhere to keep it
            made = numba.njit(**chosen)(function)
        return made

    return compile_
