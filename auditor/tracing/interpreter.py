"""An interpreter of Python functions over symbols: whatever it does not know is refused.

It runs a function in which every operation was rewritten as a call of this class, see
``rewriting``. Names, control flow and functions are Python's own, operations on values and objects
of Python classes the interpreter's; everything else is called through the gate. It writes to
nothing that the call did not make, and patches nothing.
"""

from __future__ import annotations

import builtins
import importlib
import sys
import types
from typing import Any

import numpy as np

from fedrec_auditor.auditor.tracing import builtin_calls, known
from fedrec_auditor.auditor.tracing.calls import CallRules
from fedrec_auditor.auditor.tracing.gate import OPEN, Lazy, Thrown
from fedrec_auditor.auditor.tracing.operations import Operand
from fedrec_auditor.targets.wrapped.client import own_randomness


class _Context:
    """A context manager of interpreted code; refusals pass it by."""

    def __init__(self, run: Interpreter, manager: Any) -> None:
        self.run, self.manager = run, manager
        self.enter, self.leave = (run.method(manager, f"__{name}__") for name in ("enter", "exit"))
        if self.enter is None or self.leave is None:
            run.refuse(f"with {type(manager).__name__} is not followed")

    def __enter__(self) -> Any:
        return self.enter()  # type: ignore[misc]

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        if kind is Thrown:
            return self.run.truth(self.leave(type(error.error), error.error, None))  # type: ignore[misc]
        if kind is None:
            self.leave(None, None, None)  # type: ignore[misc]
        return False


class Interpreter(CallRules):
    """Text, exceptions, contexts, imports and classes of rewritten code."""

    thrown_class = Thrown
    new_slice, lazy, text = staticmethod(slice), staticmethod(Lazy), staticmethod("".join)

    def new_super(self, owner: Any, value: Any) -> Any:
        """``super()``."""
        return builtin_calls.new_super(self, (owner, value))

    def asked(self, value: Any) -> Operand:
        """A part of ``a and b``, or of ``a < b < c``."""
        return Operand(self, value)

    def formatted(self, value: Any, conversion: int, how: str | None) -> Any:
        """One value of such a text."""
        convert = {115: str, 114: repr, 97: ascii}.get(conversion)
        if convert is not None:
            value = self.call(convert, (value,), {})
        if not how and self.method(value, "__str__") is not None:
            return self.call(str, (value,), {})
        return self.through(format, (value, how or ""), {}, "format")

    def failed(self, *message: Any) -> Thrown:
        """The exception of a failed ``assert``."""
        return Thrown(AssertionError(*message))

    def thrown(self, error: Any) -> Thrown:
        """The exception of a ``raise``."""
        if type(error) is type:
            error = self.call(error, (), {})
        if not issubclass(type(error), Exception):
            self.refuse(f"it raises {type(error).__name__}")
        return Thrown(error)

    def catches(self, error: BaseException, *classes: Any) -> bool:
        """Whether a handler is that of an exception."""
        return not classes or builtin_calls.catches(self, error, classes)

    def error(self) -> Any:
        """The exception that is handled."""
        return sys.exc_info()[1]

    def goes_on(self, before: Any) -> bool:
        """Whether ``finally`` is run: not where a refusal has come since ``before``."""
        return self.error() is before or sys.exc_info()[0] is Thrown

    def context(self, manager: Any) -> Any:
        """The manager of a ``with``."""
        return manager if type(manager) is np.errstate else _Context(self, manager)

    def is_row(self, value: Any, length: int) -> bool:
        """Whether a value matches a sequence of this length."""
        if type(value) in (list, tuple):
            return len(value) == length
        self.check_kind(value, (str, bytes, int, float, bool, dict, type(None)), "match")
        return False

    def has_keys(self, value: Any, *keys: Any) -> bool:
        """Whether a value matches a dict with these keys."""
        return type(value) is dict and all(self.contains(value, key) for key in keys)

    def is_instance(self, value: Any, kind: Any) -> bool:
        """Whether a value matches a class."""
        return builtin_calls.is_instance(self, (value, kind))

    def module(self, name: str, first: str = "") -> types.ModuleType:
        """A module that is there, or the one at the begin of its name."""
        if name not in sys.modules:  # as the first call would, with coins of its own
            with own_randomness():
                self.run(lambda: importlib.import_module(name))
            self.special = known.special_functions()
        module = sys.modules[first or name]
        if type(module) is not types.ModuleType:
            self.refuse(f"it imports {name}, which is no plain module")
        return module

    def imported(self, part: str, name: str, level: int, package: str = "") -> Any:
        """``from name import part``."""
        if part == "*":
            self.refuse("import * is not followed")
        if level:
            parents = package.split(".")
            name = ".".join([*parents[: len(parents) - level + 1], *filter(None, [name])])
        return self.attribute(self.module(name), part)

    def build_class(self, body: Any, name: str, *bases: Any) -> type:
        """A class, of plain members and classes."""
        hook = vars(object)["__init_subclass__"]
        plain = all(
            type(b) is type and self.in_class(b, "__init_subclass__") is hook for b in bases
        )
        if not plain:
            self.refuse(f"the class {name} is made in a way that is not followed")
        return builtins.__build_class__(body, name, *bases, metaclass=self._new_class)  # type: ignore[no-any-return]

    def _new_class(self, name: str, bases: Any, names: dict[str, Any]) -> type:
        for value in names.values():
            kind = type(value)
            plain = kind in known.METHODS or kind in (*OPEN, types.CellType, type(None))
            if not plain and not (kind is types.FunctionType and self.has_source(value)):
                self.refuse(f"a class holds a {kind.__name__}, which is not followed")
        return type(name, bases, names)
