"""Objects that interpreted code makes, and what it writes into them."""

from __future__ import annotations

import dataclasses
import enum
import types
from typing import Any

from fedrec_auditor.auditor.tracing.gate import Thrown
from fedrec_auditor.auditor.tracing.objects import (
    COMPILED,
    METACLASSES,
    MISSING,
    Objects,
)


class Construction(Objects):
    """Objects of classes that are written in Python: made, and written to."""

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
        elif found is not MISSING and self.in_class(type(found), "__set__") is not MISSING:
            self.refuse(f"it sets {name}, which is {type(found).__name__}")
        else:
            self.instance_names(value)[name] = new

    def without_draws(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A value that is kept from the first call on, and so must not depend on draws."""
        before = len(self.rng.path.sources)
        made = dict(self.made)
        for value in (*args, *kwargs.values()):
            if type(value) not in METACLASSES and not self.is_python_class(type(value)):
                self.passes(value, "a cache")
        found = self.call(function, args, kwargs)
        if len(self.rng.path.sources) != before:
            self.refuse("a cache keeps what was drawn for later calls")
        self.kept.append(found)
        self.made = made
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
            if type(new) is types.BuiltinFunctionType and type(begin) is COMPILED and not kwargs:
                for value in args:
                    self.passes(value, kind.__name__)
                return self.own(kind(*args))
            self.refuse_call(f"{kind.__module__}.{kind.__name__}")
        if (
            issubclass(kind, tuple)
            and self.in_class(kind, "_fields") is not MISSING
            and tuple in kind.__bases__
        ):
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
        if hook is not MISSING:
            self.call(hook, (value,), {})
