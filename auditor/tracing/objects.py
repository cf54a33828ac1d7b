"""Attributes and objects of interpreted code, looked up without running any of its code unseen."""

from __future__ import annotations

import abc
import enum
import functools
import sys
import types
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Protocol

import numpy as np

from fedrec_auditor.auditor.tracing import known
from fedrec_auditor.auditor.tracing.arrays import MaskedEntries, TracedArray
from fedrec_auditor.auditor.tracing.frames import Function
from fedrec_auditor.auditor.tracing.gate import CallGate, Lazy, Thrown
from fedrec_auditor.auditor.tracing.generator import TracedGenerator
from fedrec_auditor.auditor.tracing.symbols import Symbol

MISSING: Any = object()
COMPILED = types.WrapperDescriptorType
_ARGS = vars(BaseException)["args"]
_CLASS = vars(object)["__class__"]
METACLASSES: tuple[Any, ...] = (type, abc.ABCMeta, enum.EnumType, type(Protocol))
# Compiled classes under those that are written in Python.
_ROOTS = {object, tuple}
_DRAWS = {n for n in dir(np.random.Generator) if not n.startswith("_")} - {"bit_generator"}
FUNCTIONS = (types.FunctionType, Function)
# Constants of modules that are no functions of the process that runs.
_OF_SYS = {"maxsize", "float_info", "version_info", "platform", "byteorder", "int_info"}


@dataclass(frozen=True, slots=True, eq=False)
class BoundMethod:
    """A method of an object of the code's own, or a class method."""

    function: Any
    owner: Any


@dataclass(frozen=True, slots=True, eq=False)
class NativeMethod:
    """A method of a value of an exact type of the fixed set."""

    owner: Any
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Partial:
    """A call that was begun within the code."""

    function: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Super:
    """What ``super()`` gives: the classes after ``owner``, of ``value``."""

    owner: type
    value: Any


_OURS = {
    id(kind)
    for kind in (Fraction, Symbol, TracedArray, MaskedEntries, TracedGenerator, Lazy, Function)
}
_OURS |= {id(kind) for kind in (BoundMethod, NativeMethod, Partial, Super, Thrown)}


@lru_cache(maxsize=4096)
def _is_python(kind: type) -> bool:
    if not any(type(kind) is known_kind for known_kind in METACLASSES) or kind in _ROOTS:
        return False
    if not all(base in _ROOTS or issubclass(base, BaseException) or _is_written(base)
               for base in kind.__mro__):  # fmt: skip
        return False
    return _is_written(kind)


def _is_written(kind: type) -> bool:
    """Whether a class is written in Python: no compiled method of its own stands in it."""
    compiled = (COMPILED, types.MethodDescriptorType)
    heap = bool(kind.__flags__ & 1 << 9)
    return heap and not any(
        type(value) in compiled and value.__objclass__ is kind for value in vars(kind).values()
    )


class Objects(CallGate, ABC):
    """Attributes, and objects of classes that are written in Python."""

    def __init__(self, rng: TracedGenerator) -> None:
        super().__init__(rng)
        self.kept: list[Any] = []

    @abstractmethod
    def call(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call anything; see ``FunctionCalls``."""

    def attribute(self, value: Any, name: str) -> Any:
        """``value.name``."""
        kind = self.kind(value)
        if name == "__class__":
            self.steered &= kind is not TracedGenerator  # of replays it is another one
            return self.kind_of(value)
        if kind is types.ModuleType:
            return self._of_module(value, name)
        if kind is Symbol:
            if name in ("item", "copy", "astype"):
                return NativeMethod(value, name)
            return self.attribute(value.plain(), name)
        if kind is MaskedEntries:
            if name == "astype":
                return NativeMethod(value, name)
            return self.attribute(self.own(value.plain()), name)
        if kind is TracedGenerator:
            if name in _DRAWS:
                return NativeMethod(value, name)
            self.refuse(f"Generator.{name} is not modelled")
        if value is np.random.mtrand._rand and name in known.LEGACY:
            return known.LEGACY[name]
        if kind is np.random.Generator and self.is_own(value) and name in _DRAWS:
            return NativeMethod(value, name)
        if (
            kind is np.ufunc
            and name in ("reduce", "accumulate", "outer")
            and (id(value) in known.KNOWN or id(value) in self.special)
        ):
            return NativeMethod(value, name)
        allowed = known.METHODS.get(np.ndarray if kind is TracedArray else kind)
        if allowed is None and issubclass(type(value), np.dtype):
            allowed = known.METHODS[np.ndarray]
        if allowed is not None:
            return self._of_plain(value, name, allowed)
        if kind in METACLASSES:
            return self._of_class(value, name)
        if kind is Super:
            return self._of_super(value, name)
        if kind in FUNCTIONS and name == "__name__":
            return value.name if kind is Function else value.__name__
        if kind is types.FunctionType and name == "__wrapped__":
            return value.__wrapped__
        if kind is types.FunctionType and not name.startswith("__"):
            if name in vars(value):
                self.look(vars(value)[name])
                return vars(value)[name]
            raise Thrown(AttributeError(f"'function' object has no attribute '{name}'"))
        if id(kind) in known.CLASSES and issubclass(type(value), BaseException):
            if name == "args":
                return value.args
            self.refuse(f"it uses .{name} of an exception")
        return self._of_object(value, name)

    def _of_module(self, module: types.ModuleType, name: str) -> Any:
        names = vars(module)
        if name not in names:
            full = f"{module.__name__}.{name}"
            if full in sys.modules:
                return sys.modules[full]
            self.refuse(f"module {module.__name__} has no {name} yet")
        if module is sys and name not in _OF_SYS:
            self.refuse(f"it uses sys.{name}, which others change")
        return self.of_names(names, name)

    def of_names(self, names: dict[str, Any], name: str) -> Any:
        """A name of a module; NotTraced for what the standard library keeps there."""
        value = names[name]
        kind = type(value)
        root = str(names.get("__name__")).partition(".")[0]
        if kind in (list, dict, set) and root in sys.stdlib_module_names and root != "__main__":
            self.refuse(f"it reads {names.get('__name__')}.{name}, which others change")
        self.note(names, name)
        return value

    def _of_plain(self, value: Any, name: str, allowed: set[str]) -> Any:
        kind = type(value)
        if name not in allowed:
            if hasattr(kind, name):
                self.refuse(f"{kind.__name__}.{name} is not known to depend on its object alone")
            raise Thrown(AttributeError(f"{kind.__name__!r} object has no attribute {name!r}"))
        found = self.run(lambda: getattr(value, name))
        if isinstance(found, (types.BuiltinMethodType, types.MethodType)):
            return NativeMethod(value, name)
        self._adopt(found, {id(value): value}, name)
        return found

    def kind_of(self, value: Any) -> Any:
        """The type of a value; NotTraced where a class says another."""
        kind = super().kind_of(value)
        if self.is_python_class(kind) and self.in_class(kind, "__class__") is not _CLASS:
            self.refuse(f"{kind.__name__} has a __class__ of its own")
        return kind

    def in_class(self, kind: type, name: str, after: type | None = None) -> Any:
        """What the classes of an object have under a name, as it stands there."""
        order = kind.__mro__
        for base in order[order.index(after) + 1 :] if after is not None else order:
            if name in vars(base):
                return vars(base)[name]
        return MISSING

    def is_python_class(self, kind: type) -> bool:
        """Whether a class is written in Python, on top of ``object`` or a tuple alone."""
        return id(kind) not in _OURS and _is_python(kind)

    def _of_object(self, value: Any, name: str) -> Any:
        kind = type(value)
        if not self.is_python_class(kind):
            self.refuse(f"it uses .{name} of {kind.__module__}.{kind.__name__}, which is not known")
        if type(self.in_class(kind, "__getattribute__")) is not COMPILED:
            self.refuse(f"{kind.__name__} has a __getattribute__ of its own")
        found = self.in_class(kind, name)
        if type(found) is property:
            return self.call(found.fget, (value,), {})
        if type(found) is types.MemberDescriptorType:
            return self._slot(found, value, name)
        if issubclass(kind, enum.Enum) and name in ("value", "name"):
            return self.instance_names(value)[f"_{name}_"]
        if found is _ARGS:
            return value.args
        own = self.instance_names(value)
        if name in own:
            if self.is_own(value):
                return own[name]
            self.note(own, name)
            return own[name]
        if found is MISSING:
            hook = self.in_class(kind, "__getattr__")
            if hook is not MISSING:
                return self.call(hook, (value, name), {})
            raise Thrown(AttributeError(f"'{kind.__name__}' object has no attribute '{name}'"))
        return self._descended(found, value, kind, name)

    def _descended(self, found: Any, value: Any, kind: type, name: str) -> Any:
        """What stands in a class, as seen from an object of it."""
        how = type(found)
        if how in FUNCTIONS:
            return BoundMethod(found, value)
        if how is staticmethod:
            return found.__func__
        if how is classmethod:
            return BoundMethod(found.__func__, kind)
        if how is functools.cached_property:
            result = self.without_draws(found.func, (value,), {})
            if self.is_own(value):
                self.instance_names(value)[name] = result
            return result
        if how is functools._lru_cache_wrapper:
            return BoundMethod(found, value)
        if how.__name__ == "_tuplegetter" and issubclass(kind, tuple):
            return tuple.__getitem__(value, kind._fields.index(name))  # type: ignore[attr-defined]
        if self.in_class(how, "__get__") is not MISSING:
            self.refuse(f"{kind.__name__}.{name} is {how.__name__}, which is not known")
        self.look(found)
        return found

    def _slot(self, slot: Any, value: Any, name: str) -> Any:
        found = self.run(lambda: slot.__get__(value))
        self.look(found)
        return found

    def instance_names(self, value: Any) -> dict[str, Any]:
        """The attributes of an object itself."""
        found = self.in_class(type(value), "__dict__")
        if found is MISSING:
            return {}
        if type(found) is not types.GetSetDescriptorType:
            self.refuse(f"{type(value).__name__} has a __dict__ of its own")
        names: dict[str, Any] = found.__get__(value)
        if type(names) is not dict:
            self.refuse(f"{type(value).__name__} has a __dict__ of its own")
        return names

    def _of_class(self, kind: type, name: str) -> Any:
        if name in ("__name__", "__qualname__"):
            return kind.__name__
        if name == "__mro__":
            return kind.__mro__
        if isinstance(kind, enum.EnumType) and name in kind._member_map_:
            return kind._member_map_[name]
        found = self.in_class(kind, name)
        if known.CLASSES.get(id(kind)) is kind:
            if name in ("fromkeys", "from_bytes", "fromhex", "maketrans", "join", "upper", "lower"):
                return NativeMethod(kind, name)
            self.refuse(f"it uses {kind.__name__}.{name}, which is not known")
        if found is MISSING:
            raise Thrown(AttributeError(f"type object {kind.__name__!r} has no attribute {name!r}"))
        if type(found) is classmethod:
            return BoundMethod(found.__func__, kind)
        if type(found) is staticmethod:
            return found.__func__
        if type(found) in FUNCTIONS or type(found) is functools._lru_cache_wrapper:
            return found
        if self.in_class(type(found), "__get__") is not MISSING:
            self.refuse(f"it uses {kind.__name__}.{name}, which is not known")
        self.look(found)
        return found

    def _of_super(self, value: Super, name: str) -> Any:
        is_class = isinstance(value.value, type)
        kind = value.value if is_class else type(value.value)
        found = self.in_class(kind, name, after=value.owner)
        if type(found) is property:
            return self.call(found.fget, (value.value,), {})
        if found is object.__init__:
            return BoundMethod(found, value.value)
        if found is MISSING:
            raise Thrown(AttributeError(f"'super' object has no attribute {name!r}"))
        return self._descended(found, value.value, kind, name)

    @abstractmethod
    def has_source(self, function: Any) -> bool:
        """Whether a function can be interpreted; see ``FunctionCalls``."""

    @abstractmethod
    def without_draws(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A value that is kept from the first call on; see ``Construction``."""

    def method(self, value: Any, name: str) -> Callable[..., Any] | None:
        """A special method of an object of a class that is written in Python, or None."""
        kind = self.kind(value)
        if not self.is_python_class(kind) or known.CLASSES.get(id(kind)) is kind:
            return None
        found = self.in_class(kind, name)
        if found is MISSING or type(found) not in FUNCTIONS:
            return None
        return lambda *args: self.call(found, (value, *args), {})

    @abstractmethod
    def truth(self, value: Any) -> bool:
        """Whether ``if value`` is taken; see ``FunctionCalls``."""

    @abstractmethod
    def check_key(self, container: Any, key: Any) -> None:
        """NotTraced for a key of a class of the code's own; see ``FunctionCalls``."""

    @abstractmethod
    def iterate(self, value: Any) -> Iterator[Any]:
        """The entries of anything; see ``FunctionCalls``."""
