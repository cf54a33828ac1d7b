"""Attributes and objects of interpreted code, looked up without running any of its code unseen."""

from __future__ import annotations

import abc
import dataclasses
import enum
import functools
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from fractions import Fraction
from typing import Any, Protocol

import numpy as np

from fedrec_auditor.auditor.tracing import known
from fedrec_auditor.auditor.tracing.arrays import MaskedEntries, TracedArray
from fedrec_auditor.auditor.tracing.frames import Function
from fedrec_auditor.auditor.tracing.gate import Gate, Lazy, Thrown
from fedrec_auditor.auditor.tracing.generator import TracedGenerator
from fedrec_auditor.auditor.tracing.symbols import Symbol

_MISSING: Any = object()
_COMPILED = types.WrapperDescriptorType
_ARGS = vars(BaseException)["args"]
_CLASS = vars(object)["__class__"]
_METACLASSES: tuple[Any, ...] = (type, abc.ABCMeta, enum.EnumType, type(Protocol))
# Compiled classes under those that are written in Python.
_ROOTS = {object, tuple}
_DRAWS = {n for n in dir(np.random.Generator) if not n.startswith("_")} - {"bit_generator"}
_FUNCTIONS = (types.FunctionType, Function)
# Constants of modules that are no functions of the process that runs.
_OF_SYS = {"maxsize", "float_info", "version_info", "platform", "byteorder", "int_info"}


@dataclass(frozen=True, slots=True, eq=False)
class Bound:
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


_OURS = {id(kind) for kind in (Fraction, Symbol, TracedArray, MaskedEntries, TracedGenerator, Lazy, Function)}
_OURS |= {id(kind) for kind in (Bound, NativeMethod, Partial, Super, Thrown)}


@lru_cache(maxsize=4096)
def _is_python(kind: type) -> bool:
    if not any(type(kind) is known_kind for known_kind in _METACLASSES) or kind in _ROOTS:
        return False
    if not all(base in _ROOTS or issubclass(base, BaseException) or _is_written(base)
               for base in kind.__mro__):  # fmt: skip
        return False
    return _is_written(kind)


def _is_written(kind: type) -> bool:
    """Whether a class is written in Python: no compiled method of its own stands in it."""
    compiled = (_COMPILED, types.MethodDescriptorType)
    heap = bool(kind.__flags__ & 1 << 9)
    return heap and not any(
        type(value) in compiled and value.__objclass__ is kind for value in vars(kind).values()
    )


class Objects(Gate):
    """Attributes, and objects of classes that are written in Python."""

    def call(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call anything; see ``Calls``."""
        raise NotImplementedError

    def attribute(self, value: Any, name: str) -> Any:
        """``value.name``."""
        kind = self.kind(value)
        if name == "__class__":
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
        allowed = known.METHODS.get(np.ndarray if kind is TracedArray else kind)
        if allowed is None and issubclass(kind, np.dtype):
            allowed = known.METHODS[np.ndarray]
        if allowed is not None:
            return self._of_plain(value, name, allowed)
        if kind in _METACLASSES:
            return self._of_class(value, name)
        if kind is Super:
            return self._of_super(value, name)
        if kind in _FUNCTIONS and name == "__name__":
            return value.name if kind is Function else value.__name__
        if kind is types.FunctionType and name == "__wrapped__":
            return value.__wrapped__
        if kind is types.FunctionType and not name.startswith("__"):
            if name in vars(value):
                self.look(vars(value)[name])
                return vars(value)[name]
            raise Thrown(AttributeError(f"'function' object has no attribute '{name}'"))
        if known.CLASSES.get(id(kind)) is kind and issubclass(kind, BaseException):
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
        self.look(value)
        return value

    def _of_plain(self, value: Any, name: str, allowed: set[str]) -> Any:
        kind = type(value)
        if name not in allowed:
            if hasattr(kind, name):
                self.refuse(f"{kind.__name__}.{name} is not known to depend on its object alone")
            raise Thrown(
                AttributeError(f"{kind.__name__!r} object has no attribute {name!r}")
            )
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
        return _MISSING

    def is_python_class(self, kind: type) -> bool:
        """Whether a class is written in Python, on top of ``object`` or a tuple alone."""
        return id(kind) not in _OURS and _is_python(kind)

    def _of_object(self, value: Any, name: str) -> Any:
        kind = type(value)
        if not self.is_python_class(kind):
            self.refuse(f"it uses .{name} of {kind.__module__}.{kind.__name__}, which is not known")
        if type(self.in_class(kind, "__getattribute__")) is not _COMPILED:
            self.refuse(f"{kind.__name__} has a __getattribute__ of its own")
        found = self.in_class(kind, name)
        if type(found) is property:
            return self.call(found.fget, (value,), {})
        if type(found) is types.MemberDescriptorType:
            return self._slot(found, value, name)
        if issubclass(kind, enum.Enum):
            if name in ("value", "name"):
                return self.instance_names(value)[f"_{name}_"]
        if found is _ARGS:
            return value.args
        own = self.instance_names(value)
        if name in own:
            self.look(own[name])
            return own[name]
        if found is _MISSING:
            hook = self.in_class(kind, "__getattr__")
            if hook is not _MISSING:
                return self.call(hook, (value, name), {})
            raise Thrown(AttributeError(f"'{kind.__name__}' object has no attribute '{name}'"))
        return self._descended(found, value, kind, name)

    def _descended(self, found: Any, value: Any, kind: type, name: str) -> Any:
        """What stands in a class, as seen from an object of it."""
        how = type(found)
        if how in _FUNCTIONS:
            return Bound(found, value)
        if how is staticmethod:
            return found.__func__
        if how is classmethod:
            return Bound(found.__func__, kind)
        if how is functools.cached_property:
            result = self.without_draws(found.func, (value,), {})
            if self.is_own(value):
                self.instance_names(value)[name] = result
            return result
        if how is functools._lru_cache_wrapper:
            return Bound(found, value)
        if how.__name__ == "_tuplegetter" and issubclass(kind, tuple):
            return tuple.__getitem__(value, kind._fields.index(name))  # type: ignore[attr-defined]
        if self.in_class(how, "__get__") is not _MISSING:
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
        if found is _MISSING:
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
        if isinstance(kind, enum.EnumType) and name in kind._member_map_:
            return kind._member_map_[name]
        found = self.in_class(kind, name)
        if known.CLASSES.get(id(kind)) is kind:
            if name in ("fromkeys", "from_bytes", "fromhex", "maketrans", "join", "upper", "lower"):
                return NativeMethod(kind, name)
            self.refuse(f"it uses {kind.__name__}.{name}, which is not known")
        if found is _MISSING:
            raise Thrown(
                AttributeError(f"type object {kind.__name__!r} has no attribute {name!r}")
            )
        if type(found) is classmethod:
            return Bound(found.__func__, kind)
        if type(found) is staticmethod:
            return found.__func__
        if type(found) in _FUNCTIONS or type(found) is functools._lru_cache_wrapper:
            return found
        if self.in_class(type(found), "__get__") is not _MISSING:
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
            return Bound(found, value.value)
        if found is _MISSING:
            raise Thrown(AttributeError(f"'super' object has no attribute {name!r}"))
        return self._descended(found, value.value, kind, name)

    def set_attribute(self, value: Any, name: str, new: Any) -> None:
        """``value.name = new``, of an object that this call made."""
        kind = self.kind(value)
        python = self.is_python_class(kind)
        if python and name not in vars(kind) and self.instance_names(value).get(name) is new:
            return  # it is so already
        if not python or not self.is_own(value):
            self.refuse(
                f"it changes the attribute {name} of what it did not make: "
                "it changes what it keeps between calls, on which later answers may depend"
            )
        if self.in_class(kind, "__setattr__") is not object.__setattr__:
            hook = self.in_class(kind, "__setattr__")
            if self.parts_of(kind) and not self.has_source(hook):
                raise Thrown(dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}"))
            self.call(hook, (value, name, new), {})
            return
        self.set_plainly(value, name, new)

    def set_plainly(self, value: Any, name: str, new: Any) -> None:
        """What ``object.__setattr__`` does."""
        found = self.in_class(type(value), name)
        if type(found) is property:
            if found.fset is None:
                raise Thrown(AttributeError(f"property {name!r} has no setter"))
            self.call(found.fset, (value, new), {})
        elif type(found) is types.MemberDescriptorType:
            found.__set__(value, new)
        elif found is not _MISSING and self.in_class(type(found), "__set__") is not _MISSING:
            self.refuse(f"it sets {name}, which is {type(found).__name__}")
        else:
            self.instance_names(value)[name] = new

    def has_source(self, function: Any) -> bool:
        """Whether a function can be interpreted; see ``Calls``."""
        raise NotImplementedError

    def without_draws(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A value that is kept from the first call on, and so must not depend on draws."""
        before = len(self.rng.path.sources)
        found = self.call(function, args, kwargs)
        if len(self.rng.path.sources) != before:
            self.refuse("a cache keeps what was drawn for later calls")
        if type(found) in (list, dict, set, bytearray):
            self.made.pop(id(found), None)
        return found

    def construct(self, kind: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """An object of a class that is written in Python."""
        if isinstance(kind, enum.EnumType) and len(args) == 1 and not kwargs:
            for member in kind._member_map_.values():
                if self.passes(args[0], "Enum") == member.value:
                    return member
            raise Thrown(ValueError(f"{args[0]!r} is not a valid {kind.__name__}"))
        if not self.is_python_class(kind) or type(kind) is enum.EnumType:
            self.refuse_call(f"{kind.__module__}.{kind.__name__}")
        new, begin = self.in_class(kind, "__new__"), self.in_class(kind, "__init__")
        if issubclass(kind, BaseException):
            if type(new) is types.BuiltinFunctionType and type(begin) is _COMPILED and not kwargs:
                for value in args:
                    self.passes(value, kind.__name__)
                return self.own(kind(*args))
            self.refuse_call(f"{kind.__module__}.{kind.__name__}")
        if issubclass(kind, tuple) and self.in_class(kind, "_fields") is not _MISSING and tuple in kind.__bases__:
            return self._named_tuple(kind, args, kwargs)
        if new is not object.__new__ or self.in_class(kind, "__slots__") is None:
            self.refuse(f"{kind.__name__} has a __new__ of its own")
        if getattr(kind, "__abstractmethods__", None):
            raise Thrown(TypeError(f"Can't instantiate abstract class {kind.__name__}"))
        value = self.own(object.__new__(kind))
        if self.parts_of(kind) and not self.has_source(begin):
            self._begin_dataclass(value, args, kwargs)
        elif begin is not object.__init__:
            self.call(begin, (value, *args), kwargs)
        elif args or kwargs:
            raise Thrown(TypeError(f"{kind.__name__}() takes no arguments"))
        return value

    def parts_of(self, kind: type) -> list[dataclasses.Field[Any]] | None:
        """The fields of a dataclass; None for another class."""
        found = self.in_class(kind, "__dataclass_fields__")
        if type(found) is not dict:
            return None
        return [part for part in found.values() if part._field_type is dataclasses._FIELD]  # type: ignore[attr-defined]

    def _named_tuple(self, kind: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        values = dict(zip(kind._fields, args, strict=False)) | kwargs
        values = {**kind._field_defaults, **values}
        if set(values) != set(kind._fields) or len(args) > len(kind._fields):
            raise Thrown(TypeError(f"{kind.__name__}() got other arguments than its fields"))
        return tuple.__new__(kind, [values[name] for name in kind._fields])

    def _begin_dataclass(self, value: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """What the generated ``__init__`` of a dataclass does."""
        left, given = list(args), dict(kwargs)
        hook = self.in_class(type(value), "__post_init__")
        for part in self.parts_of(type(value)) or ():
            if not part.init:
                if part.default is not dataclasses.MISSING:
                    self.set_plainly(value, part.name, part.default)
                elif part.default_factory is not dataclasses.MISSING:
                    self.set_plainly(value, part.name, self.call(part.default_factory, (), {}))
                continue
            if left and not part.kw_only:
                new = left.pop(0)
            elif part.name in given:
                new = given.pop(part.name)
            elif part.default is not dataclasses.MISSING:
                new = part.default
            elif part.default_factory is not dataclasses.MISSING:
                new = self.call(part.default_factory, (), {})
            else:
                raise Thrown(TypeError(f"missing argument: {part.name!r}"))
            self.set_plainly(value, part.name, new)
        if left or given:
            raise Thrown(TypeError("too many arguments"))
        if hook is not _MISSING:
            self.call(hook, (value,), {})

    def method(self, value: Any, name: str) -> Callable[..., Any] | None:
        """A special method of an object of a class that is written in Python, or None."""
        kind = self.kind(value)
        if not self.is_python_class(kind) or known.CLASSES.get(id(kind)) is kind:
            return None
        found = self.in_class(kind, name)
        if found is _MISSING or type(found) not in _FUNCTIONS:
            return None
        return lambda *args: self.call(found, (value, *args), {})

    def iterate(self, value: Any) -> Iterator[Any]:
        """The entries of anything; see ``Calls``."""
        raise NotImplementedError
