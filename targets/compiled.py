"""Compilation of loops to machine code by numba. Importing this module imports numba."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

# LLVM flags: the compiler may fuse a product and a sum into one operation, ignore the sign of
# zero, and multiply by a reciprocal to divide. Infinities and NaN keep their meaning.
FUSED_MATH_FLAGS = frozenset({"contract", "nsz", "arcp"})
# LLVM flags: the compiler may also reorder sums, so that they vectorize.
REORDERED_MATH_FLAGS = FUSED_MATH_FLAGS | {"reassoc"}

_Function = TypeVar("_Function", bound=Callable[..., Any])


def jit_compile(
    *, cache: bool = True, fastmath: frozenset[str] = frozenset(), **options: Any
) -> Callable[[_Function], _Function]:
    """Returns a decorator that compiles a function to machine code that does not hold Python's GIL.

    cache: whether the compiled code is stored on disk; False for functions that only compiled
        functions call, which are then inlined into their callers
    fastmath: LLVM flags that permit inexact floating-point optimizations
    options: further options of ``numba.njit``
    """
    chosen: dict[str, Any] = {"nogil": True, "fastmath": set(fastmath) or False, **options}
    if not cache:  # inlined, stored code computes the same last bits as freshly compiled code
        chosen["forceinline"] = True

    def compile_(function: _Function) -> _Function:
        try:
            made: _Function = numba.njit(cache=cache, **chosen)(function)
        except RuntimeError:  # no directory for the cache is writable
            made = numba.njit(**chosen)(function)
        return made

    return compile_
