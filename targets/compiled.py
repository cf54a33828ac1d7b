"""Compilation of loops by numba, which is imported with this module."""

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
    """Decorator that compiles a function to machine code which runs without the interpreter's lock.

    If ``kept``, the code is stored beside the source, or in the user's cache directory if the
    source's directory is not writable. If neither is writable, every process compiles anew.
    ``options`` are those of ``numba.njit``.

    Functions that compiled functions call must not be ``kept``: they are inlined into their
    callers, so that a caller's last bits do not differ between a process that loads the stored code
    and one that compiles it.
    """
    chosen: dict[str, Any] = {"nogil": True, "fastmath": set(fastmath) or False, **options}
    if not kept:
        chosen["forceinline"] = True

    def compile_(function: _Function) -> _Function:
        try:
            made: _Function = numba.njit(cache=kept, **chosen)(function)
        except RuntimeError:  # no directory for the cache is writable
            made = numba.njit(**chosen)(function)
        return made

    return compile_
