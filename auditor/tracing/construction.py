"""Objects that interpreted code makes, and what it writes into them."""

from __future__ import annotations

import dataclasses
import enum
import types
from typing import Any

from fedrec_auditor.auditor.tracing.gate import Thrown
from fedrec_auditor.auditor.tracing.objects import COMPILED, MISSING, Objects
from fedrec_auditor.auditor.tracing.rewriting import rewritten


class Construction(Objects):
    """Objects of classes that are written in Python: made, and written to."""

    def set_attribute(self, value: Any, name: str, new: Any) -> None:
        """``value.name = new``, of an object that this call made."""
        kind = self.kind(value)
        python, hook = self.is_python_class(kind), self.in_class(kind, "__setattr__")
        plain = python and hook is object.__setattr__ and self.in_class(kind, name) is MISSING
        if plain and self.instance_names(value).get(name) is new:
            return  # it is so already
        if not python or not self.is_own(value):
            self.refuse(
                f"it changes the attribute {name} of what it did not make: "
                "it changes what it keeps between calls, on which later answers may depend"
            )
        if hook is not object.__setattr__:
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
        elif found is not MISSING and self.in_class(type(found), "__set__") is not MISSING:
            self.refuse(f"it sets {name}, which is {type(found).__name__}")
        else:
            self.instance_names(value)[name] = new

    def has_source(self, function: Any) -> bool:
        """Whether a function is one of Python whose source is found."""
        return type(function) is types.FunctionType and (
            id(function.__globals__) in self.scopes or rewritten(function.__code__) is not None
        )

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
        if self.in_class(kind, "__del__") is not MISSING:
            self.refuse(f"{kind.__name__} has a __del__, which runs unseen")
        if issubclass(kind, BaseException):
            if type(new) is types.BuiltinFunctionType and type(begin) is COMPILED and not kwargs:
                for value in args:
                    self.passes(value, kind.__name__)
                return self.own(kind(*args))
            self.refuse_call(f"{kind.__module__}.{kind.__name__}")
        fields = self.in_class(kind, "_fields") if tuple in kind.__bases__ else MISSING
        if fields is not MISSING:
            values = {**kind._field_defaults, **dict(zip(fields, args, strict=False)), **kwargs}  # type: ignore[attr-defined]
            if set(values) != set(fields) or len(args) > len(fields):
                raise Thrown(TypeError(f"{kind.__name__}() got other arguments than its fields"))
            return tuple.__new__(kind, [values[name] for name in fields])  # type: ignore[type-var]
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

    def is_plain_record(self, kind: type) -> bool:
        """Whether reading the fields of a dataclass runs no code of its own."""
        parts = self.parts_of(kind)
        if not parts or type(self.in_class(kind, "__getattribute__")) is not COMPILED:
            return False
        found = [self.in_class(kind, part.name) for part in parts]
        return all(
            type(f) is types.MemberDescriptorType or self.in_class(type(f), "__get__") is MISSING
            for f in found
        )

    def _begin_dataclass(self, value: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """What the generated ``__init__`` of a dataclass does."""
        parts = self.parts_of(type(value)) or []
        by_place = [part.name for part in parts if part.init and not part.kw_only]
        given = dict(zip(by_place, args, strict=False))
        unknown = set(kwargs) - ({part.name for part in parts if part.init} - set(given))
        if unknown or len(args) > len(by_place):
            raise Thrown(TypeError("it gets other arguments than the fields"))
        given |= kwargs
        for part in parts:
            if part.name in given:
                new = given[part.name]
            elif part.default is not dataclasses.MISSING:
                new = part.default
            elif part.default_factory is not dataclasses.MISSING:
                new = self.call(part.default_factory, (), {})
            elif part.init:
                raise Thrown(TypeError(f"missing argument: {part.name!r}"))
            else:
                continue
            self.set_plainly(value, part.name, new)
        hook = self.in_class(type(value), "__post_init__")
        if hook is not MISSING:
            self.call(hook, (value,), {})
