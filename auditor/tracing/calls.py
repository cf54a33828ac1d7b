"""CallRules of interpreted code: functions of Python in their turn, everything else at the gate."""

from __future__ import annotations

import abc
import builtins
import functools
import types
from collections import deque
from inspect import CO_GENERATOR
from pathlib import Path
from typing import Any

import numpy as np

from fedrec_auditor.auditor.tracing import known
from fedrec_auditor.auditor.tracing.arrays import TracedArray
from fedrec_auditor.auditor.tracing.builtin_calls import SPECIAL
from fedrec_auditor.auditor.tracing.gate import DICTS, DIGESTS, Lazy, Thrown
from fedrec_auditor.auditor.tracing.generator import TracedGenerator
from fedrec_auditor.auditor.tracing.objects import METACLASSES, NativeMethod, Partial
from fedrec_auditor.auditor.tracing.operations import Operations
from fedrec_auditor.auditor.tracing.rewriting import RUN, file_of, rewritten
from fedrec_auditor.targets.mechanisms import base

_DEEPEST, _CALL = 60, 10
_MECHANISMS = str(Path(base.__file__).parent)
_SINGLE = {"random", "standard_normal", "standard_exponential", "standard_gamma"}
# Methods that look at no entry of their container, but for keys, and indices.
_BLIND: dict[Any, set[str]] = {
    list: {"append", "insert", "pop", "clear"},
    deque: {"append", "appendleft", "pop", "popleft", "clear"},
}
_BLIND |= {key: {"get", "setdefault", "pop", "items", "values", "keys", "copy"} for key in DICTS}


class _Names:
    """The names of a module, and built-in functions, as rewritten code looks them up."""

    def __init__(self, run: Any, module: dict[str, Any]) -> None:
        self.run, self.module = run, module

    def __getitem__(self, name: str) -> Any:
        if name == "__build_class__":
            return self.run.build_class
        for names in (self.module, vars(builtins)):
            if name in names:
                return self.run.of_names(names, name)
        raise Thrown(NameError(f"name {name!r} is not defined"))


class CallRules(Operations):
    """CallRules, of anything."""

    depth = 0

    def call(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """``function(*args, **kwargs)``."""
        self.step()
        kind = self.kind(function)
        special = SPECIAL.get(id(function))
        if special is not None:
            return special(self, args, kwargs)
        if any(id(function) in table for table in (
            known.KNOWN, self.draws, known.WRITING, self.special)):  # fmt: skip
            return self.call_known(function, args, kwargs, _name(function))
        if kind is types.FunctionType:
            return self._interpret(function, args, kwargs)
        if kind is types.MethodType:
            return self.call(function.__func__, (function.__self__, *args), kwargs)
        if kind is NativeMethod:
            return self._native_method(function.owner, function.name, args, kwargs)
        if kind is Partial:
            return self.call(function.function, (*function.args, *args), function.kwargs | kwargs)
        if kind is functools.partial:
            return self.call(function.func, (*function.args, *args), function.keywords | kwargs)
        if kind is functools._lru_cache_wrapper:
            return self.without_draws(function.__wrapped__, args, kwargs)
        if kind in METACLASSES and self.is_python_class(function):
            return self.construct(function, args, kwargs)
        if known.is_compiled(function):
            self.steered = False
            return self.call(function.py_func, args, kwargs)
        hook = None if kind in METACLASSES else self.method(function, "__call__")
        if hook is None:
            self.refuse_call(_name(function))
        return self.call(self.in_class(kind, "__call__"), (function, *args), kwargs)

    def _scope(self, module: dict[str, Any]) -> dict[str, Any]:
        """The global names of rewritten code: the interpreter, and none that it could change."""
        if id(module) not in self.modules:
            scope: dict[str, Any] = {"__builtins__": _Names(self, module), RUN: self}
            self.modules[id(module)] = scope
            self.scopes[id(scope)] = scope
        return self.modules[id(module)]

    def _function(self, function: types.FunctionType) -> types.FunctionType:
        """A function of which every operation is one of this interpreter."""
        code = function.__code__
        if id(function.__globals__) in self.scopes:
            return function
        own_names = getattr(function, "__builtins__", None) is not vars(builtins)
        if own_names or type(function.__globals__) is not dict:
            self.refuse(f"{_name(function)} has built-in functions or names of its own")
        new = rewritten(code)
        if new is None:
            self.refuse(f"it calls {_name(function)}, whose source is not found")
        cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
        made = types.FunctionType(
            new,
            self._scope(function.__globals__),
            function.__name__,
            function.__defaults__,
            tuple(cells[name] for name in new.co_freevars),
        )
        made.__kwdefaults__ = function.__kwdefaults__
        for cell in cells.values():
            if cell != _EMPTY:
                self.look(cell)
                self.look(cell.cell_contents)
        for default in (*(made.__defaults__ or ()), *(made.__kwdefaults__ or {}).values()):
            self.look(default)
        return made

    def _interpret(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self.step(_CALL)
        function = self._function(function)
        if self.depth > _DEEPEST:
            self.refuse(f"its calls are nested more than {_DEEPEST} deep")
        self.depth += 1
        try:
            found = function(*args, **kwargs)
        except (TypeError, NameError) as error:  # of arguments, or of a name without a value
            trace: Any = error.__traceback__
            while trace.tb_next is not None:
                trace = trace.tb_next
            if (
                trace.tb_frame.f_code is CallRules._interpret.__code__
                or RUN in trace.tb_frame.f_globals
            ):
                raise Thrown(error) from None
            raise
        finally:
            self.depth -= 1
        return Lazy(found) if function.__code__.co_flags & CO_GENERATOR else found

    def _native_method(self, value: Any, name: str, args: Any, kwargs: dict[str, Any]) -> Any:
        kind = type(value)
        if name == "__getitem__":
            return self.entry(value, *args)
        if name == "shuffle":
            self.may_write(args[0] if args else kwargs.get("x"))
        if kind is TracedGenerator:
            dtypes = [*args[1:2], kwargs.get("dtype")] if name in _SINGLE else []
            if any(dtype is not None and dtype not in (float, np.float64) for dtype in dtypes):
                self.refuse(f"{name} gives numbers of 24 bits, which are followed as real ones")
            value.huge = file_of().startswith(_MECHANISMS)
            return self.through(getattr(value, name), args, kwargs, f"Generator.{name}")
        if known.changes(np.ndarray if kind is TracedArray else kind, name):
            self.may_write(value)
        if kind is list and name == "extend" and len(args) == 1:
            value.extend(list(self.iterate(args[0])))
            return None
        if kind is list and name == "sort":
            value[:] = self.call(sorted, (value,), kwargs)
            return None
        if name in _BLIND.get(kind, ()):
            return self._blind_method(value, kind, name, args)
        if kind in DIGESTS or kind in (np.random.Generator, np.ufunc):
            if name in (*_SINGLE, "shuffle", "permuted") and TracedArray in map(type, args):
                self.refuse(f"{name} writes into an array that may hold draws")
            return self.through(getattr(value, name), args, kwargs, f"{kind.__name__}.{name}")
        if kind in (bytes, bytearray, str):
            args = tuple(map(self.plainly, args))
        return self.through(
            lambda owner, *rest, **named: getattr(owner, name)(*rest, **named),
            (value, *args),
            kwargs,
            f"{kind.__name__}.{name}",
        )

    def _blind_method(self, value: Any, kind: Any, name: str, args: Any) -> Any:
        """Call a method that looks at no entry, but for keys and indices."""
        if kind in DICTS and args:
            self.check_key(value, args[0])
        elif kind is list and name in ("insert", "pop") and args:
            args = (self.decided(self.passes(args[0], "an index")), *args[1:])
        found = self.run(lambda: getattr(value, name)(*args))
        return self.own(found) if name == "copy" else found


_EMPTY = types.CellType()
_NAMED: tuple[Any, ...] = (
    types.FunctionType, types.BuiltinFunctionType, types.MethodType, type, abc.ABCMeta,
    types.MethodDescriptorType, types.WrapperDescriptorType, types.MethodWrapperType,
)  # fmt: skip


def _name(function: Any) -> str:
    if not any(type(function) is kind for kind in _NAMED):
        kind = type(function)
        return f"an object of {kind.__module__}.{kind.__name__}"
    name = getattr(function, "__qualname__", None) or getattr(function, "__name__", None)
    module = getattr(function, "__module__", None)
    if not isinstance(name, str):
        return "a function without a name"
    return name if not isinstance(module, str) or module == "builtins" else f"{module}.{name}"
