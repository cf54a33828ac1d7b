"""Reads, creates and changes objects in traced code, without running code that is not traced."""

from __future__ import annotations

import abc
import dataclasses
import enum
import functools
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Protocol

import numpy as np

from fedrec_auditor.auditor.tracing import known
from fedrec_auditor.auditor.tracing.affine_noise import AffineNoise
from fedrec_auditor.auditor.tracing.arrays import MaskedEntries, TracedArray
from fedrec_auditor.auditor.tracing.gate import CallGate, TracedError
from fedrec_auditor.auditor.tracing.generator import TracedGenerator
from fedrec_auditor.auditor.tracing.rewriting import rewrite_code
from fedrec_auditor.auditor.tracing.symbols import Symbol, apply_to_values

# Stands for an attribute that does not exist.
MISSING: Any = object()
# Type of special methods that are compiled, such as ``object.__init__``.
COMPILED_METHOD_TYPE = types.WrapperDescriptorType
# Special methods of ``object``, ``tuple`` and exceptions.
_SLOTS = (COMPILED_METHOD_TYPE, types.MethodDescriptorType, types.BuiltinFunctionType)
# Methods of symbols, and of masked arrays of symbols, that do not fix the draws.
_OPEN_METHODS: dict[Any, set[str]] = {Symbol: {"item", "copy", "astype"}, MaskedEntries: {"astype"}}
_ARGS = vars(BaseException)["args"]
_CLASS = vars(object)["__class__"]
# Methods that look up attributes of objects, classes, modules, bound methods and exceptions. From
# Python 3.14 on, exceptions have the method of ``object``.
_GETTERS = [kind.__getattribute__ for kind in
            (object, type, types.ModuleType, types.MethodType, BaseException)]  # fmt: skip
_MRO, _NAMES = (vars(type)[name].__get__ for name in ("__mro__", "__dict__"))
# Types of the classes that traced code may use.
ALLOWED_METACLASSES: tuple[Any, ...] = (type, abc.ABCMeta, enum.EnumType, type(Protocol))
# Compiled classes that may be base classes of classes written in Python.
_ROOTS = {object, tuple}
_DRAWS = {n for n in dir(np.random.Generator) if not n.startswith("_")} - {"bit_generator"}
# Types of functions that are written in Python, without and with ``functools.lru_cache``.
PYTHON_FUNCTION_TYPES = (types.FunctionType, functools._lru_cache_wrapper)
# Constants of ``sys`` that do not change while the process runs.
_OF_SYS = {"maxsize", "float_info", "version_info", "platform", "byteorder", "int_info"}


@dataclass(frozen=True, slots=True, eq=False)
class NativeMethod:
    """A method of a value of a built-in type, such as ``append`` of a list.

    - ``owner``: the value, such as the list.
    - ``name``: name of the method.
    """

    owner: Any
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class PartialCall:
    """A function together with its first arguments, such as a bound method.

    - ``function``: any function of the traced code.
    - ``args``: the first positional arguments.
    - ``kwargs``: keyword arguments, which a call may override.
    """

    function: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class SuperProxy:
    """The result of ``super()`` in traced code.

    - ``owner``: class that defines the method in which ``super()`` is called. Attributes come from
      the base classes after this class.
    - ``receiver``: object on which the method was called.
    """

    owner: type
    receiver: Any


@dataclass(frozen=True, slots=True)
class _Slot:
    """The value in a slot (``__slots__``) of an object, read like a dict with one name."""

    slot: Any
    owner: Any

    def get(self, name: str) -> Any:
        return self.slot.__get__(self.owner)

    __getitem__ = get


_STANDS_FOR: dict[Any, Any] = {TracedArray: np.ndarray, TracedGenerator: np.random.Generator}
_PACKAGE = __name__.rpartition(".")[0]


@lru_cache(maxsize=4096)
def _is_python(kind: type) -> bool:
    if not any(type(kind) is known_kind for known_kind in ALLOWED_METACLASSES) or kind in _ROOTS:
        return False
    module = vars(kind).get("__module__")
    if kind is Fraction or type(module) is not str or module.startswith(_PACKAGE):
        return False
    if not all(base in _ROOTS or issubclass(base, BaseException) or _is_pure_python(base)
               for base in kind.__mro__):  # fmt: skip
        return False
    return _is_pure_python(kind)


def _is_pure_python(kind: type) -> bool:
    """Whether a class is written in Python, so that it defines no compiled method."""
    compiled = (COMPILED_METHOD_TYPE, types.MethodDescriptorType)
    heap = bool(kind.__flags__ & 1 << 9)
    methods = (value for value in vars(kind).values() if type(value) in compiled)
    return heap and not any(method.__objclass__ is kind for method in methods)


class ObjectReader(CallGate):
    """Reads attributes of modules, values, classes written in Python, and their objects."""

    def __init__(self, rng: TracedGenerator) -> None:
        super().__init__(rng)
        self.cached_values: list[Any] = []
        self.scopes: dict[int, dict[str, Any]] = {}
        self.modules: dict[int, dict[str, Any]] = {}

    def get_attribute(self, value: Any, name: str) -> Any:
        """Returns the attribute ``name`` of ``value`` in traced code.

        Raises NotTraced if this could run code that is not traced.
        """
        self.count_steps()
        kind = self.get_safe_class(value)
        if name == "__class__":
            self.is_replayed &= kind is not TracedGenerator  # a replay would read another class
            return self.get_class(value)
        if kind is types.ModuleType:
            return self._read_module(value, name)
        if name in _OPEN_METHODS.get(kind, ()) or self._is_draw_or_reduction(value, kind, name):
            return NativeMethod(value, name)
        if kind in _OPEN_METHODS:
            return self.get_attribute(self.record_new(value.to_concrete()), name)
        if kind is TracedGenerator:
            self.refuse(f"tracing does not support Generator.{name}")
        if value is np.random.mtrand._rand and name in known.NUMPY_RANDOM:
            return known.NUMPY_RANDOM[name]
        array = kind is TracedArray or issubclass(kind, np.dtype)
        allowed = known.ALLOWED_ATTRS.get(np.ndarray if array else kind)
        if allowed is not None:
            return self._read_builtin(value, name, allowed)
        if kind in ALLOWED_METACLASSES:
            return self._read_class(value, name)
        if kind is SuperProxy:
            return self._read_super(value, name)
        if kind is types.FunctionType:
            if name in ("__name__", "__wrapped__") and (name == "__name__" or name in vars(value)):
                return getattr(value, name)
            if not name.startswith("__"):
                return self._read_name(vars(value), name, "'function' object")
        if id(kind) in known.KNOWN_CLASSES and issubclass(kind, BaseException):
            if name == "args":
                return value.args
            self.refuse(f"the code reads the attribute {name} of an exception")
        return self._read_object(value, name)

    def _is_draw_or_reduction(self, value: Any, kind: Any, name: str) -> bool:
        """Whether ``value.name`` is a random draw of a generator, or a reduction of a known ufunc.

        The generator must belong to the traced code: its argument ``rng``, or a generator that the
        present run created.
        """
        if kind is np.ufunc:
            known_one = id(value) in known.ALLOWED_FUNCTIONS or id(value) in self.special
            return known_one and name in ("reduce", "accumulate", "outer")
        own = kind is np.random.Generator and self.has_created(value)
        return name in _DRAWS and (own or kind is TracedGenerator)

    def _read_name(self, names: dict[str, Any], name: str, owner: str) -> Any:
        """Returns ``names[name]``.

        If the name does not exist, raises AttributeError in the traced code. ``owner``: description
        of the object for the message.
        """
        if name not in names:
            raise TracedError(AttributeError(f"{owner} has no attribute {name!r}"))
        self.record_name_read(names, name)
        return names[name]

    def _read_module(self, module: types.ModuleType, name: str) -> Any:
        names = vars(module)
        if name not in names:
            full = f"{module.__name__}.{name}"
            if full in sys.modules:
                return sys.modules[full]
            self.refuse(f"the code reads {module.__name__}.{name}, which does not exist yet")
        if module is sys and name not in _OF_SYS:
            self.refuse(f"the code reads sys.{name}, which may change between calls")
        return self.get_module_value(names, name)

    def get_module_value(self, names: dict[str, Any], name: str) -> Any:
        """Returns ``names[name]`` in traced code, where ``names`` are the global names of a module.

        Raises NotTraced for lists, dicts and sets of the standard library, because their content
        may change.
        """
        value = names[name]
        kind = type(value)
        root = str(names.get("__name__")).partition(".")[0]
        if kind in (list, dict, set) and root in sys.stdlib_module_names and root != "__main__":
            self.refuse(f"the code reads {names.get('__name__')}.{name}, which may change")
        self.record_name_read(names, name)
        return value

    def _read_builtin(self, value: Any, name: str, allowed: set[str]) -> Any:
        kind = type(value)
        if name not in allowed:
            if hasattr(kind, name):
                self.refuse(f"the code uses {kind.__name__}.{name}, which tracing does not know")
            raise TracedError(AttributeError(f"{kind.__name__!r} object has no attribute {name!r}"))
        member = self.run_code(lambda: getattr(value, name))
        if isinstance(member, (types.BuiltinMethodType, types.MethodType)):
            return NativeMethod(value, name)
        self.record_created_results(member, {id(value): value}, name)
        return member

    def get_class(self, value: Any) -> Any:
        """Returns the class of a value, as ``value.__class__`` does in traced code.

        Raises NotTraced for a random draw that is not fixed yet, and if the class overrides
        ``__class__``.
        """
        kind = self.get_safe_class(value)
        if kind in (Symbol, MaskedEntries):
            pieces = value.list_values() if kind is Symbol else ()
            if not pieces or any(type(piece) is AffineNoise for _, piece in pieces):
                self.refuse("the code reads the type of a random draw")
            return self.fix_value(apply_to_values(type, value))
        kind = _STANDS_FOR.get(kind, kind)
        getter = self.look_up(kind, "__getattribute__")
        if kind not in known.ALLOWED_ATTRS and (
            self.look_up(kind, "__class__") is not _CLASS or all(g is not getter for g in _GETTERS)
        ):
            self.refuse(f"the code uses {kind.__name__}, which overrides __class__")
        return kind

    def look_up(self, kind: type, name: str, after: type | None = None) -> Any:
        """Returns the attribute ``name`` of a class or its bases, without binding it to an object.

        ``after``: search only the bases after this class; None to search all. The result is MISSING
        if the attribute does not exist.
        """
        order = _MRO(kind)
        for base in order[order.index(after) + 1 :] if after is not None else order:
            names = _NAMES(base)
            if name in names:
                return names[name]
        return MISSING

    def is_python_class(self, kind: type) -> bool:
        """Whether a class, with its bases, is written in Python.

        Bases may also be ``object``, ``tuple`` or exceptions. Any other compiled base gives False,
        and so does a metaclass other than those of ABCs, enums and protocols.
        """
        return _is_python(kind)

    def _read_object(self, value: Any, name: str) -> Any:
        kind = type(value)
        if not self.is_python_class(kind):
            self.refuse(f"tracing does not know {kind.__module__}.{kind.__name__}.{name}")
        if type(self.look_up(kind, "__getattribute__")) is not COMPILED_METHOD_TYPE:
            self.refuse(f"the code uses {kind.__name__}, which overrides __getattribute__")
        member, own = self.look_up(kind, name), self.get_attributes(value)
        of_enum = issubclass(kind, enum.Enum) and name in ("value", "name")
        if of_enum and type(member) is not property:
            return own[f"_{name}_"]
        if member is _ARGS:
            return value.args
        if name in own and (member is MISSING or self.look_up(type(member), "__set__") is MISSING):
            if not self.has_created(value):
                self.record_name_read(own, name)
            return own[name]
        hook = self.look_up(kind, "__getattr__")
        if member is MISSING and hook is not MISSING:
            return self.call(hook, (value, name), {})
        return self._bind(member, kind, name, value)

    def _bind(self, member: Any, kind: type, name: str, value: Any = MISSING) -> Any:
        """Returns ``member``, an attribute of the class ``kind``, bound to the class or to an
        instance.

        ``value``: the instance; MISSING for the class itself.
        ``name``: name of the attribute.
        """
        how, has_value = type(member), value is not MISSING
        if member is MISSING:
            raise TracedError(AttributeError(f"{kind.__name__!r} has no attribute {name!r}"))
        if how in PYTHON_FUNCTION_TYPES or member is object.__init__:
            return PartialCall(member, (value,), {}) if has_value else member
        if how is staticmethod:
            return member.__func__
        if how is classmethod:
            return PartialCall(member.__func__, (kind,), {})
        if has_value and how is property:
            return self.call(member.fget, (value,), {})
        if has_value and how is functools.cached_property:
            result = self.call_cached(member.func, (value,), {})
            if self.has_created(value):
                self.get_attributes(value)[name] = result
            return result
        if has_value and how is types.MemberDescriptorType:
            names = _Slot(member, value)
            member = self.run_code(lambda: names[name])
            if not self.has_created(value):
                self.record_name_read(names, name, value)
        elif has_value and how.__name__ == "_tuplegetter" and issubclass(kind, tuple):
            return tuple.__getitem__(value, kind._fields.index(name))  # type: ignore[attr-defined]
        elif self.look_up(how, "__get__") is not MISSING:
            self.refuse(f"tracing does not know {kind.__name__}.{name}, of type {how.__name__}")
        else:
            owner = next(base for base in _MRO(kind) if name in _NAMES(base))
            self.record_name_read(_NAMES(owner), name, owner)
        self.record_content(member)
        return member

    def get_attributes(self, value: Any) -> dict[str, Any]:
        """Returns the ``__dict__`` of an object; an empty dict if the object has none.

        Raises NotTraced if the class overrides ``__dict__``.
        """
        member = self.look_up(type(value), "__dict__")
        if member is MISSING:
            return {}
        if type(member) is not types.GetSetDescriptorType:
            self.refuse(f"the code uses {type(value).__name__}, which overrides __dict__")
        names: dict[str, Any] = member.__get__(value)
        if type(names) is not dict:
            self.refuse(f"the code uses {type(value).__name__}, which overrides __dict__")
        return names

    def _read_class(self, kind: type, name: str) -> Any:
        if name in ("__name__", "__qualname__"):
            return kind.__name__
        if name == "__mro__":
            return kind.__mro__
        if isinstance(kind, enum.EnumType) and name in kind._member_map_:
            return kind._member_map_[name]
        if known.KNOWN_CLASSES.get(id(kind)) is kind:
            if name in ("fromkeys", "from_bytes", "fromhex", "maketrans", "join", "upper", "lower"):
                return NativeMethod(kind, name)
            self.refuse(f"the code uses {kind.__name__}.{name}, which tracing does not know")
        return self._bind(self.look_up(kind, name), kind, name)

    def _read_super(self, value: SuperProxy, name: str) -> Any:
        kind = value.receiver if isinstance(value.receiver, type) else type(value.receiver)
        return self._bind(self.look_up(kind, name, after=value.owner), kind, name, value.receiver)

    def find_method(self, value: Any, name: str) -> Callable[..., Any] | None:
        """Returns a special method, such as ``__len__``, bound to the object ``value``.

        The result is None if the class of the object is not written in Python, or does not define
        the method.
        """
        kind = self.get_safe_class(value)
        if not self.is_python_class(kind) or known.KNOWN_CLASSES.get(id(kind)) is kind:
            return None
        member = self.look_up(kind, name)
        if member is MISSING or member is None or type(member) in _SLOTS:
            return None
        if type(member) not in PYTHON_FUNCTION_TYPES:
            self.refuse(f"tracing does not know {kind.__name__}.{name}, a {type(member).__name__}")
        return lambda *args: self.call(member, (value, *args), {})

    def call_cached(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Calls a function that caches its result, such as a cached property; returns the result.

        Raises NotTraced if the function draws random numbers, because later calls would share them.
        """
        before = len(self.rng.path.draws)
        made = dict(self.new_objects)
        for value in (*args, *kwargs.values()):
            if type(value) not in ALLOWED_METACLASSES and not self.is_python_class(type(value)):
                self.check_input(value, "a cache")
        result = self.call(function, args, kwargs)
        if len(self.rng.path.draws) != before:
            self.refuse("the code caches a result that depends on random draws for later calls")
        self.cached_values.append(result)
        self.new_objects = made
        return result


class ObjectBuilder(ObjectReader):
    """Creates objects of classes that are written in Python, and sets their attributes."""

    def set_attribute(self, value: Any, name: str, new: Any) -> None:
        """Executes ``value.name = new`` in traced code.

        Raises NotTraced unless the present run of the traced code created the object ``value``.
        """
        kind = self.get_safe_class(value)
        python, hook = self.is_python_class(kind), self.look_up(kind, "__setattr__")
        plain = python and hook is object.__setattr__ and self.look_up(kind, name) is MISSING
        if plain and self.get_attributes(value).get(name) is new:
            return  # the attribute has this value already
        if not python or not self.has_created(value):
            self.refuse(
                f"the code changes attribute {name} of an object that this call did not create, "
                "which keeps its value between calls, so that later outputs may depend on it"
            )
        if hook is not object.__setattr__:
            if self.get_fields(kind) and not self.has_source(hook):
                error = dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
                raise TracedError(error)
            self.call(hook, (value, name, new), {})
            return
        self.set_attribute_unchecked(value, name, new)

    def set_attribute_unchecked(self, value: Any, name: str, new: Any) -> None:
        """Sets an attribute as ``object.__setattr__`` does.

        Does not check that the present run created the object.
        """
        member = self.look_up(type(value), name)
        if type(member) is property:
            if member.fset is None:
                raise TracedError(AttributeError(f"property {name!r} has no setter"))
            self.call(member.fset, (value, new), {})
        elif type(member) is types.MemberDescriptorType:
            member.__set__(value, new)
        elif member is not MISSING and self.look_up(type(member), "__set__") is not MISSING:
            self.refuse(f"the code assigns to {name}, which is a {type(member).__name__}")
        else:
            self.get_attributes(value)[name] = new

    def has_source(self, function: Any) -> bool:
        """Whether a function is written in Python and its source code is available."""
        return type(function) is types.FunctionType and (
            id(function.__globals__) in self.scopes or rewrite_code(function.__code__) is not None
        )

    def construct(self, kind: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Creates an object of ``kind``, a class that is written in Python.

        Raises NotTraced if creating the object would run code that cannot be traced.
        """
        if isinstance(kind, enum.EnumType) and len(args) == 1 and not kwargs:
            for member in kind._member_map_.values():
                if self.check_input(args[0], "Enum") == member.value:
                    return member
            raise TracedError(ValueError(f"{args[0]!r} is not a valid {kind.__name__}"))
        if not self.is_python_class(kind) or type(kind) is enum.EnumType:
            self.refuse_call(f"{kind.__module__}.{kind.__name__}")
        new, begin = (self.look_up(kind, "__new__"), self.look_up(kind, "__init__"))
        if self.look_up(kind, "__del__") is not MISSING:
            self.refuse(f"the code uses {kind.__name__}, whose __del__ would run untraced")
        if issubclass(kind, BaseException):
            builtin = type(new) is types.BuiltinFunctionType and type(begin) is COMPILED_METHOD_TYPE
            if builtin and not kwargs:
                for value in args:
                    self.check_input(value, kind.__name__)
                return self.record_new(kind(*args))
            self.refuse_call(f"{kind.__module__}.{kind.__name__}")
        fields = self.look_up(kind, "_fields") if tuple in kind.__bases__ else MISSING
        if fields is not MISSING:
            values = {**kind._field_defaults, **dict(zip(fields, args, strict=False)), **kwargs}  # type: ignore[attr-defined]
            if set(values) != set(fields) or len(args) > len(fields):
                raise TracedError(TypeError(f"{kind.__name__}() got arguments beside its fields"))
            return tuple.__new__(kind, [values[name] for name in fields])  # type: ignore[type-var]
        if new is not object.__new__ or self.look_up(kind, "__slots__") is None:
            self.refuse(f"the code uses {kind.__name__}, which overrides __new__")
        if getattr(kind, "__abstractmethods__", None):
            raise TracedError(TypeError(f"Can't instantiate abstract class {kind.__name__}"))
        value = self.record_new(object.__new__(kind))
        if self.get_fields(kind) and not self.has_source(begin):
            self._init_dataclass(value, args, kwargs)
        elif begin is not object.__init__:
            self.call(begin, (value, *args), kwargs)
        elif args or kwargs:
            raise TracedError(TypeError(f"{kind.__name__}() takes no arguments"))
        return value

    def get_fields(self, kind: type) -> list[dataclasses.Field[Any]] | None:
        """Returns the fields of a dataclass; None for any other class."""
        member = self.look_up(kind, "__dataclass_fields__")
        if type(member) is not dict:
            return None
        return [part for part in member.values() if part._field_type is dataclasses._FIELD]  # type: ignore[attr-defined]

    def is_plain_dataclass(self, kind: type) -> bool:
        """Whether a class is a dataclass whose fields can be read without running its code."""
        parts = self.get_fields(kind)
        if not parts or type(self.look_up(kind, "__getattribute__")) is not COMPILED_METHOD_TYPE:
            return False
        kinds = [type(self.look_up(kind, part.name)) for part in parts]
        others = [member for member in kinds if member is not types.MemberDescriptorType]
        return all(self.look_up(member, "__get__") is MISSING for member in others)

    def _init_dataclass(self, value: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Initialises an object as the generated ``__init__`` of a dataclass does."""
        parts = self.get_fields(type(value)) or []
        by_place = [part.name for part in parts if part.init and not part.kw_only]
        given = dict(zip(by_place, args, strict=False))
        unknown = set(kwargs) - ({part.name for part in parts if part.init} - set(given))
        if unknown or len(args) > len(by_place):
            raise TracedError(TypeError(f"{type(value).__name__}() got an argument of no field"))
        given |= kwargs
        for part in parts:
            if part.name in given:
                new = given[part.name]
            elif part.default is not dataclasses.MISSING:
                new = part.default
            elif part.default_factory is not dataclasses.MISSING:
                new = self.call(part.default_factory, (), {})
            elif part.init:
                raise TracedError(TypeError(f"missing argument: {part.name!r}"))
            else:
                continue
            self.set_attribute_unchecked(value, part.name, new)
        hook = self.look_up(type(value), "__post_init__")
        if hook is not MISSING:
            self.call(hook, (value,), {})
