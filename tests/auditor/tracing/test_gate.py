"""Tests of the gate: objects with hooks never reach a known function."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import pytest

from fedrec_auditor.auditor.tracing import builtin_calls, known
from fedrec_auditor.auditor.tracing.gate import TracedError
from fedrec_auditor.auditor.tracing.generator import TracedGenerator
from fedrec_auditor.auditor.tracing.interpreter import Interpreter
from fedrec_auditor.auditor.tracing.objects import NativeMethod
from fedrec_auditor.auditor.tracing.paths import ExecutionPath, NotTraced, PathTooRare, StepBudget


class HookedObject:
    """An object with every hook, each of which counts its calls."""

    calls = 0

    def _count(self, *_: Any, **__: Any) -> Any:
        HookedObject.calls += 1
        return 1

    __eq__ = __hash__ = __len__ = __index__ = __bool__ = __lt__ = __gt__ = __le__ = _count  # type: ignore[assignment]
    __float__ = __int__ = __complex__ = __format__ = __call__ = __contains__ = _count
    __add__ = __radd__ = __mul__ = __rmul__ = __sub__ = __rsub__ = __neg__ = __pow__ = _count
    __getitem__ = __setitem__ = __enter__ = __exit__ = __round__ = __trunc__ = _count
    __array__ = __array_ufunc__ = __array_function__ = __array_wrap__ = _count
    __abs__ = __floor__ = __ceil__ = __invert__ = __and__ = __or__ = __xor__ = __matmul__ = _count
    __bytes__ = __fspath__ = __copy__ = __deepcopy__ = __reduce__ = __next__ = _count  # type: ignore[assignment]
    __get__ = __instancecheck__ = __length_hint__ = __reversed__ = __sizeof__ = _count  # type: ignore[assignment]
    __str__ = __repr__ = lambda self: str(self._count())

    def __iter__(self) -> Any:
        self._count()
        return iter([1])

    def keys(self) -> Any:
        return [str(self._count())]

    @property
    def __class__(self) -> Any:
        HookedObject.calls += 1
        return int

    @property
    def __array_interface__(self) -> Any:
        return self._count()

    @property
    def dtype(self) -> Any:
        return self._count()


HOSTILE: Any = HookedObject()
PLAIN: Any = [1, 2.0, "a", [1, 2], np.zeros(2)]
TABLES = {**known.ALLOWED_FUNCTIONS, **known.WRITING_FUNCTIONS, **known.list_library_functions()}
FUNCTIONS = {f"{number} {getattr(f, '__name__', f)}": f for number, f in enumerate(TABLES.values())}
METHODS = [
    (value, name)
    for value in ("ab", b"ab", 3, 2.5, [1, 2], {1}, {1: 2}, (1, 2), bytearray(2), np.arange(3.0),
                  np.float64(1.5), np.int8(1), range(3), frozenset([1]))
    for name in sorted(known.ALLOWED_ATTRS[type(value)])
    if callable(getattr(value, name, None))
]  # fmt: skip


RUN = Interpreter(TracedGenerator(ExecutionPath([], budget=StepBudget())))


def reset_interpreter() -> Interpreter:
    """Returns the interpreter at the start of a call."""
    RUN.reset(ExecutionPath([], budget=StepBudget()))
    return RUN


def make_arguments(value: Any) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Arguments that contain a value, directly and in containers at several depths."""
    inside = [value, [value], (value,), {"a": value}, [[0, value]], {0: [value]}]
    found: list[tuple[tuple[Any, ...], dict[str, Any]]] = [((entry,), {}) for entry in inside]
    found += [((entry, value), {}) for entry in PLAIN]
    found += [((value, entry), {}) for entry in PLAIN]
    found += [((PLAIN[3], 1, value), {}), ((PLAIN[4], value, 1), {}), ((), {"a": value})]
    found += [((PLAIN[4],), {name: value}) for name in ("axis", "dtype", "out", "key", "where")]
    return found


def check_no_calls(name: str, run: Interpreter, call: Any) -> None:
    """Checks that a call runs no method of the object, whatever its result."""
    before = HookedObject.calls
    # Errors of the interpreter itself are refusals too.
    own = (TypeError, IndexError, ValueError, AttributeError)
    with suppress(NotTraced, TracedError, PathTooRare, *own):
        call()
    assert HookedObject.calls == before, name


@pytest.mark.parametrize("first", range(0, len(FUNCTIONS), 50))
def test_no_known_function_runs_code_of_an_object(first: int) -> None:
    for name, function in list(FUNCTIONS.items())[first : first + 50]:
        for args, kwargs in make_arguments(HOSTILE):
            run = reset_interpreter()
            check_no_calls(name, run, partial(run.call, function, args, kwargs))


def test_no_special_function_runs_hooks_of_an_object_in_a_list() -> None:
    """Special functions interpret hooks of an object itself, but not of an object in a list."""
    for number, key in enumerate(builtin_calls.BUILTIN_REPLACEMENTS):
        for args, kwargs in make_arguments([HOSTILE])[:5]:
            run = reset_interpreter()
            call = partial(builtin_calls.BUILTIN_REPLACEMENTS[key], run, args, kwargs)
            check_no_calls(str(number), run, call)


@pytest.mark.parametrize("first", range(0, len(METHODS), 50))
def test_no_method_runs_code_of_an_object(first: int) -> None:
    for value, name in METHODS[first : first + 50]:
        for args, kwargs in make_arguments(HOSTILE):
            run = reset_interpreter()
            own = run.record_new(value.copy() if hasattr(value, "copy") else value)
            call = partial(run.call, NativeMethod(own, name), args, kwargs)
            check_no_calls(f"{value!r}.{name}", run, call)
