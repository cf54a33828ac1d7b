"""Calls of interpreted code: functions of Python in their turn, everything else at the gate."""

from __future__ import annotations

import abc
import builtins
import enum
import functools
import types
from abc import abstractmethod
from collections import defaultdict, deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from fedrec_auditor.auditor.tracing import known
from fedrec_auditor.auditor.tracing.arrays import MaskedEntries, TracedArray
from fedrec_auditor.auditor.tracing.builtin_calls import SEQUENCES, SPECIAL, VIEWS, Builtins
from fedrec_auditor.auditor.tracing.frames import Frame, Function, scope_of
from fedrec_auditor.auditor.tracing.gate import DIGESTS, Lazy, Thrown
from fedrec_auditor.auditor.tracing.generator import TracedGenerator
from fedrec_auditor.auditor.tracing.objects import (
    METACLASSES,
    BoundMethod,
    NativeMethod,
    Partial,
)
from fedrec_auditor.auditor.tracing.paths import NotTraced
from fedrec_auditor.auditor.tracing.symbols import Symbol
from fedrec_auditor.auditor.tracing.syntax import syntax_of
from fedrec_auditor.targets.mechanisms import base

_DEEPEST, _CALL = 60, 10
_MECHANISMS = str(Path(base.__file__).parent)


class FunctionCalls(Builtins):
    """Calls, of anything."""

    depth = 0

    @abstractmethod
    def run_body(self, function: Function, frame: Frame) -> Any:
        """The result of a function whose arguments stand in ``frame``."""

    def call(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """``function(*args, **kwargs)``."""
        self.step()
        kind = self.kind(function)
        special = SPECIAL.get(id(function))
        if special is not None:
            return special(self, args, kwargs)
        if kind is Function:
            return self._interpret(function, args, kwargs)
        if kind is types.FunctionType:
            if id(function) in known.KNOWN or id(function) in self.draws:
                return self.call_known(function, args, kwargs, _name(function))
            return self._interpret(self.function_of(function), args, kwargs)
        if kind is BoundMethod:
            if function.function is object.__init__:
                return None
            return self.call(function.function, (function.owner, *args), kwargs)
        if kind is types.MethodType:
            if id(function) in self.draws:
                return self.call_known(function, args, kwargs, _name(function))
            return self.call(function.__func__, (function.__self__, *args), kwargs)
        if kind is NativeMethod:
            return self._native_method(function, args, kwargs)
        if kind is Partial:
            return self.call(function.function, (*function.args, *args), function.kwargs | kwargs)
        if kind is functools.partial:
            return self.call(function.func, (*function.args, *args), function.keywords | kwargs)
        if kind is functools._lru_cache_wrapper and id(function) not in known.KNOWN:
            return self.without_draws(function.__wrapped__, args, kwargs)
        if id(function) in known.LAZY:
            return self._lazily(known.LAZY[id(function)], args, kwargs)
        if any(id(function) in table for table in self.tables()):
            return self.call_known(function, args, kwargs, _name(function))
        if kind in METACLASSES and self.is_python_class(function):
            return self.construct(function, args, kwargs)
        if known.is_compiled(function):
            self.steered = False
            return self.call(function.py_func, args, kwargs)
        if kind in METACLASSES or kind is types.BuiltinFunctionType:
            self.refuse_call(_name(function))
        hook = self.method(function, "__call__")
        if hook is not None:
            return self.call(BoundMethod(self.in_class(kind, "__call__"), function), args, kwargs)
        self.refuse_call(_name(function))

    def tables(self) -> tuple[dict[int, Any], ...]:
        """The tables of compiled functions."""
        return known.KNOWN, self.draws, known.WRITING, self.special

    def function_of(self, function: types.FunctionType) -> Function:
        """A function that was made outside of the call, with its syntax tree."""
        code = function.__code__
        if getattr(function, "__builtins__", None) is not vars(builtins):
            self.refuse(f"{_name(function)} has built-in functions of its own")
        node = syntax_of(code)
        if node is None:
            self.refuse(f"it calls {_name(function)}, whose source is not found")
        cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
        return Function(
            node,
            code.co_filename,
            function.__globals__,
            function.__defaults__ or (),
            function.__kwdefaults__ or {},
            None,
            cells,
        )

    def has_source(self, function: Any) -> bool:
        """Whether a function is one of Python whose syntax tree is found."""
        if type(function) is Function:
            return True
        return type(function) is types.FunctionType and syntax_of(function.__code__) is not None

    def _interpret(self, function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self.step(_CALL)
        own, shared, of_module, _ = scope_of(function.node)
        frame = Frame(
            function.file,
            {},
            own,
            function.module,
            function.parent,
            function.cells,
            shared=shared,
            of_module=of_module,
        )
        self._bind(function, frame, args, kwargs)
        frame.first = args[0] if args else None
        if self.depth > _DEEPEST:
            self.refuse(f"its calls are nested more than {_DEEPEST} deep")
        self.depth += 1
        place = self.place
        try:
            return self.run_body(function, frame)
        except NotTraced as refusal:
            refusal.where = refusal.where or self.where
            raise
        finally:
            self.depth -= 1
            self.place = place

    def _bind(
        self, function: Function, frame: Frame, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        """Bind arguments to the names of a function, as Python does."""
        spec, values = function.node.args, frame.values
        by_place = [a.arg for a in (*spec.posonlyargs, *spec.args)]
        left = dict(kwargs)
        values.update(zip(by_place, args, strict=False))
        if spec.vararg is not None:
            values[spec.vararg.arg] = args[len(by_place) :]
        elif len(args) > len(by_place):
            raise Thrown(TypeError(f"{function.name}() takes {len(by_place)} positional arguments"))
        by_name = {a.arg for a in (*spec.args, *spec.kwonlyargs)}
        for name in list(left):
            if name in by_name:
                if name in values:
                    raise Thrown(TypeError(f"{function.name}() got several values for {name!r}"))
                values[name] = left.pop(name)
        if spec.kwarg is not None:
            values[spec.kwarg.arg] = self.own(left)
        elif left:
            raise Thrown(
                TypeError(f"{function.name}() got an unexpected argument {next(iter(left))!r}")
            )
        optional = by_place[len(by_place) - len(function.defaults) :]
        defaults = dict(zip(optional, function.defaults, strict=True)) | function.keyword_defaults
        for name in (*by_place, *(a.arg for a in spec.kwonlyargs)):
            if name not in values:
                if name not in defaults:
                    raise Thrown(TypeError(f"{function.name}() missing an argument: {name!r}"))
                self.look(defaults[name])
                values[name] = defaults[name]

    def _native_method(
        self, method: NativeMethod, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        value, name = method.owner, method.name
        kind = type(value)
        if name == "__getitem__":
            return self.entry(value, *args)
        if kind is TracedGenerator:
            self._check_draw(name, args, kwargs)
            value.huge = self.place[0].startswith(_MECHANISMS)
            if name == "shuffle":
                self.may_write(args[0] if args else kwargs.get("x"))
            return self.through(getattr(value, name), args, kwargs, f"Generator.{name}")
        if known.changes(np.ndarray if kind is TracedArray else kind, name):
            self.may_write(value)
        if kind is list and name in ("append", "insert", "extend", "sort", "pop", "clear"):
            return self._of_list(value, name, args, kwargs)
        if kind in DIGESTS or kind in (np.random.Generator, np.ufunc):
            if name == "shuffle":
                self.may_write(args[0] if args else kwargs.get("x"))
            if name in (*_SINGLE, "shuffle", "permuted") and TracedArray in map(type, args):
                self.refuse(f"{name} writes into an array that may hold draws")
            return self.through(getattr(value, name), args, kwargs, f"{kind.__name__}.{name}")
        if kind is deque and name in ("append", "appendleft", "pop", "popleft", "clear"):
            return self.run(lambda: getattr(value, name)(*args))
        if kind in (dict, defaultdict) and name in (
            "get",
            "setdefault",
            "pop",
            "items",
            "values",
            "keys",
            "copy",
        ):
            for key in args[:1]:
                self.check_key(value, key)
            found = self.run(lambda: getattr(value, name)(*args))
            return self.own(found) if name == "copy" else found
        if kind in (bytes, bytearray, str):
            args = tuple(map(self._plainly, args))
        return self.through(
            lambda owner, *rest, **named: getattr(owner, name)(*rest, **named),
            (value, *args),
            kwargs,
            f"{kind.__name__}.{name}",
        )

    def _of_list(
        self, value: list[Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Methods of lists that look at no entry, or at those that pass."""
        if name == "extend" and len(args) == 1:
            entries = list(self.iterate(args[0]))
            value.extend(entries)
            return None
        if name == "sort":
            value[:] = self._sorted((value,), kwargs)
            return None
        if name == "append" and len(args) == 1:
            value.append(args[0])
            return None
        for value_given in args[:1]:
            self.passes(value_given, f"list.{name}")
        rest = [self.decided(a) if type(a) is Symbol and k == 0 else a for k, a in enumerate(args)]
        return self.run(lambda: getattr(value, name)(*rest))

    def _check_draw(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        kinds = [*args[1:2], kwargs.get("dtype")] if name in _SINGLE else []
        if any(kind is not None and kind not in (float, np.float64) for kind in kinds):
            self.refuse(f"{name} gives numbers of 24 bits, which are followed as real ones")

    def check_key(self, container: Any, key: Any) -> None:
        """NotTraced where a dict has, or is asked for, keys of a class of the code's own."""
        self.passes(key, "a dict")
        self.look(container)
        for known_key in container:
            if type(known_key) not in (str, int):
                self.passes(known_key, "a dict")

    def iterate(self, value: Any) -> Iterator[Any]:
        """The entries of anything that can be looped over."""
        kind = self.kind(value)
        if kind is Lazy:
            values: Iterator[Any] = value.values
            return values
        if kind in SEQUENCES or kind in VIEWS:
            self.look(value)
            return self.counted(value)
        if kind in (set, frozenset):
            self.look(value)
            self.check_order(value)
            return iter(value)
        if kind in (Symbol, MaskedEntries):
            return self.iterate(value.plain())
        if kind in (np.ndarray, TracedArray):
            self.passes(value, "a loop")
            rows: list[Any] = self.run(lambda: [value[k] for k in range(len(value))])
            return iter(rows)
        if kind is enum.EnumType:
            members: list[Any] = [value._member_map_[name] for name in value._member_names_]
            return iter(members)
        if issubclass(kind, tuple) and self.in_class(kind, "__iter__") is tuple.__iter__:
            entries: Iterator[Any] = tuple.__iter__(value)
            return entries
        hook = self.method(value, "__iter__")
        if hook is not None:
            return self._of_iterator(hook())
        hook = self.method(value, "__getitem__")
        if hook is None and not self.is_python_class(kind):
            if kind in known.METHODS:
                raise Thrown(TypeError(f"{kind.__name__!r} object is not iterable"))
            self.refuse(f"it loops over a {kind.__name__} that it did not make")
        self.refuse(f"it loops over a {kind.__name__}, which is not followed")

    def _of_iterator(self, value: Any) -> Iterator[Any]:
        hook = self.method(value, "__next__")
        if hook is None:
            yield from self.iterate(value)
            return
        while True:
            try:
                entry = hook()
            except Thrown as thrown:
                if type(thrown.error) is StopIteration:
                    return
                raise
            yield entry

    def truth(self, value: Any) -> bool:
        """Whether ``if value`` is taken; the path decides on open draws."""
        kind = type(value)
        if kind in known.METHODS or kind in (Symbol, TracedArray, MaskedEntries, type(None)):
            return bool(self.run(lambda: bool(value)))
        for name in ("__bool__", "__len__"):
            hook = self.method(value, name)
            if hook is not None:
                return bool(self.truth(hook()))
        if issubclass(kind, tuple):
            return tuple.__len__(value) > 0
        if kind in VIEWS:
            return len(value) > 0
        return True


_NAMED: tuple[Any, ...] = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    type,
    abc.ABCMeta,
)
_NAMED += (types.MethodDescriptorType, types.WrapperDescriptorType, types.MethodWrapperType)
_SINGLE = {"random", "standard_normal", "standard_exponential", "standard_gamma"}


def _name(function: Any) -> str:
    if not any(type(function) is kind for kind in _NAMED):
        kind = type(function)
        return f"an object of {kind.__module__}.{kind.__name__}"
    name = getattr(function, "__qualname__", None) or getattr(function, "__name__", None)
    module = getattr(function, "__module__", None)
    if not isinstance(name, str):
        return "a function without a name"
    return name if not isinstance(module, str) or module == "builtins" else f"{module}.{name}"
