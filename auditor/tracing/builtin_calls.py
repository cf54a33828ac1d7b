"""Built-in functions that take functions, iterables or objects of the code's own."""

from __future__ import annotations

import abc
import ast
import copy
import dataclasses
import enum
import functools
import itertools
import operator
import sys
import types
from abc import abstractmethod
from collections import defaultdict, deque
from collections.abc import Iterator
from typing import Any

import numpy as np

from fedrec_auditor.auditor.tracing import known
from fedrec_auditor.auditor.tracing.arrays import TracedArray
from fedrec_auditor.auditor.tracing.construction import Construction
from fedrec_auditor.auditor.tracing.frames import Frame, Function
from fedrec_auditor.auditor.tracing.gate import Lazy, Thrown
from fedrec_auditor.auditor.tracing.objects import (
    METACLASSES,
    MISSING,
    BoundMethod,
    NativeMethod,
    Partial,
    Super,
)
from fedrec_auditor.auditor.tracing.symbols import Symbol
from fedrec_auditor.targets import settings

_OWN = settings.__name__.partition(".")[0]
SEQUENCES = (list, tuple, range, str, bytes, dict, bytearray, deque, defaultdict)
VIEWS: tuple[Any, ...] = (type({}.keys()), type({}.values()), type({}.items()))
_CALLABLE: tuple[Any, ...] = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    Function,
    BoundMethod,
)
_CALLABLE += (NativeMethod, Partial, functools.partial, type)


class Builtins(Construction):
    """Built-in functions, by this interpreter's own loops and calls."""

    @abstractmethod
    def evaluate(self, node: ast.expr, frame: Frame) -> Any:
        """The value of an expression."""

    @abstractmethod
    def binary(self, action: Any, name: str, a: Any, b: Any) -> Any:
        """``a + b``, and its like."""

    def _lazily(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What takes iterables or functions, as this interpreter's own loops."""
        if name == "next":
            return self._next(args)
        if name == "map":
            lines = [self.iterate(a) for a in args[1:]]
            values = (self.call(args[0], row, {}) for row in zip(*lines, strict=False))
        elif name == "starmap":
            values = (
                self.call(args[0], tuple(self.iterate(row)), {}) for row in self.iterate(args[1])
            )
        elif name == "filter":
            values = (
                entry
                for entry in self.iterate(args[1])
                if self.truth(entry if args[0] is None else self.call(args[0], (entry,), {}))
            )
        elif name == "zip":
            strict = self.truth(kwargs.get("strict", False))
            values = zip(*[self.iterate(a) for a in args], strict=strict)  # type: ignore[assignment]
        elif name == "enumerate":
            start = kwargs.get("start", args[1] if len(args) > 1 else 0)
            values = enumerate(self.iterate(args[0]), self.passes(start, name))  # type: ignore[assignment]
        elif name == "reversed":
            if type(args[0]) in (np.ndarray, TracedArray):
                values = reversed(list(self.iterate(args[0])))  # type: ignore[assignment]
            else:
                self._check_kind(args[0], SEQUENCES + VIEWS, name)
                values = reversed(args[0])
        elif name == "iter" and len(args) == 1:
            return Lazy(iter(self.iterate(args[0])))
        elif name == "chain":
            values = (entry for part in args for entry in self.iterate(part))
        elif name in ("pairwise", "islice", "product", "combinations", "permutations", "repeat",
                      "count", "zip_longest"):  # fmt: skip
            many = {"product": len(args), "zip_longest": len(args), "repeat": 0, "count": 0}
            first = many.get(name, 1)
            given = [Lazy(self.iterate(a)).values for a in args[:first]]
            plain = args[first + (name == "repeat") :]
            rest = [*args[first:][: name == "repeat"], *(self.decided(a) for a in plain)]
            for value in (*plain, *kwargs.values()):
                self.passes(value, name)
            values = self.run(lambda: getattr(itertools, name)(*given, *rest, **kwargs))
        elif name == "accumulate":
            values = self._accumulated(*args, **kwargs)  # type: ignore[assignment]
        else:
            self.refuse_call(name)
        return Lazy(self.counted(values))

    def _accumulated(self, entries: Any, function: Any = None) -> Iterator[Any]:
        total = MISSING
        for entry in self.iterate(entries):
            if total is MISSING:
                total = entry
            elif function is None:
                total = self.binary(operator.add, "add", total, entry)
            else:
                total = self.call(function, (total, entry), {})
            yield total

    def _next(self, args: tuple[Any, ...]) -> Any:
        if type(args[0]) is not Lazy:
            hook = self.method(args[0], "__next__")
            if hook is None:
                self.refuse("it takes the next of an iterator that it did not make")
            return hook()
        for entry in args[0].values:
            return entry
        if len(args) > 1:
            return args[1]
        raise Thrown(StopIteration())

    def _check_kind(self, value: Any, kinds: tuple[Any, ...], name: str) -> None:
        if type(value) not in kinds:
            self.refuse(f"{name} of a {type(value).__name__} is not followed")

    def _sorted(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """``sorted``, the keys by the interpreter."""
        value, key = args[0], kwargs.get("key")
        reverse = self.truth(kwargs.get("reverse", False))
        if key is None:
            if type(value) not in (set, frozenset):
                value = self.own(list(self.iterate(value)))
            return self.own(self.through(sorted, (value,), {"reverse": reverse}, "sorted",
                                         orderless=True))  # fmt: skip
        entries = list(self.iterate(value))
        keys = [self.passes(self.call(key, (e,), {}), "sorted") for e in entries]
        order = self.run(lambda: sorted(range(len(keys)), key=keys.__getitem__, reverse=reverse))
        return self.own([entries[place] for place in order])

    def _extreme(self, args: tuple[Any, ...], kwargs: dict[str, Any], function: Any) -> Any:
        if kwargs.get("key") is None:
            entries: Any = args
            if len(args) == 1 and type(args[0]) not in (set, frozenset):
                entries = (tuple(self.iterate(args[0])),)
            kwargs = {name: value for name, value in kwargs.items() if name != "key"}
            return self.through(function, entries, kwargs, function.__name__, orderless=True)
        values = list(self.iterate(args[0])) if len(args) == 1 else list(args)
        keys = [self.passes(self.call(kwargs["key"], (e,), {}), "max") for e in values]
        place = self.run(lambda: function(range(len(keys)), key=keys.__getitem__))
        return values[place]

    def _instance(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """``isinstance`` and ``issubclass``, by the order of the classes alone."""
        value, classes = args
        kind = self.kind_of(value)
        return any(self._below(kind, c) for c in self._classes(classes))

    def _classes(self, classes: Any) -> Iterator[Any]:
        for part in classes if type(classes) is tuple else (classes,):
            if type(part) is tuple:
                yield from self._classes(part)
            elif type(part) is types.UnionType:
                yield from part.__args__
            else:
                yield part

    def _below(self, kind: Any, part: Any) -> bool:
        if type(part) is abc.ABCMeta and part.__module__ in ("numbers", "collections.abc"):
            known_kind = known.ABSTRACT.get((id(kind), id(part)))
            if known_kind is None and part.__module__ != "numbers":
                self.refuse(f"isinstance of {kind.__name__} and {part.__name__} is not followed")
            return bool(known_kind)
        tensor = getattr(sys.modules.get("torch"), "Tensor", None)
        if type(part) not in (type, abc.ABCMeta, enum.EnumType) and part is not tensor:
            self.refuse("isinstance of what is no plain class is not followed")
        return any(base is part for base in kind.__mro__)

    def _kind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if len(args) != 1 or kwargs:
            self.refuse("it makes a class by type()")
        return self.attribute(args[0], "__class__")

    def _getattr(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self._check_kind(args[1], (str,), "getattr")
        try:
            return self.attribute(args[0], args[1])
        except Thrown as thrown:
            if len(args) > 2 and isinstance(thrown.error, AttributeError):
                return args[2]
            raise

    def _hasattr(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        return self._getattr((*args, MISSING), {}) is not MISSING

    def _setattr(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._check_kind(args[1], (str,), "setattr")
        self.set_attribute(*args)

    def _set_plainly(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.may_write(args[0])
        self.set_plainly(*args)

    def _length(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        value = self.decided(args[0]) if type(args[0]) is Symbol else args[0]
        kind = type(value)
        if kind in SEQUENCES or kind in VIEWS or kind in (set, frozenset):
            self.look(value)
            return len(value)
        if issubclass(kind, tuple) and self.in_class(kind, "__len__") is tuple.__len__:
            return tuple.__len__(value)
        hook = self.method(value, "__len__")
        return hook() if hook else self.through(len, (value,), {}, "len")

    def _listed(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self.own(list(self.iterate(args[0])) if args else [])

    def _tupled(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return tuple(self.iterate(args[0])) if args else ()

    def _sum(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        total = args[1] if len(args) > 1 else kwargs.get("start", 0)
        for entry in self.iterate(args[0]):
            total = self.binary(operator.add, "add", total, entry)
        return total

    def _any(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        return any(self.truth(entry) for entry in self.iterate(args[0]))

    def _all(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        return all(self.truth(entry) for entry in self.iterate(args[0]))

    def _reduced(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        entries = self.iterate(args[1])
        total = args[2] if len(args) > 2 else next(entries)
        for entry in entries:
            total = self.call(args[0], (total, entry), {})
        return total

    def _replace(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        (value,) = args
        kept = {
            f.name: self.attribute(value, f.name)
            for f in self.parts_of(type(value)) or ()
            if f.init
        }
        return self.call(type(value), (), kept | kwargs)

    def _below_class(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        self._check_kind(args[0], METACLASSES, "issubclass")
        return any(self._below(args[0], c) for c in self._classes(args[1]))

    def _copied(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """``copy.deepcopy`` of values of the fixed types."""
        (value,) = args
        kind = self.kind(value)
        if kind in (list, dict):
            self.look(value)
        if kind is list:
            return self.own([self._copied((entry,), {}) for entry in value])
        if kind is tuple:
            return tuple(self._copied((entry,), {}) for entry in value)
        if kind is dict:
            self.check_key(value, None)
            return self.own({key: self._copied((entry,), {}) for key, entry in value.items()})
        if kind in (np.ndarray, TracedArray):
            return self.call(NativeMethod(value, "copy"), (), {})
        if kind in (int, float, bool, str, bytes, type(None), complex, Symbol, *_SCALARS):
            return value
        self.refuse(f"copy of a {kind.__name__} is not followed")

    def _item(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        *places, value = args
        found = tuple(self.entry(value, place) for place in places)
        return found if len(found) > 1 else found[0]

    @abstractmethod
    def entry(self, value: Any, index: Any) -> Any:
        """``value[index]``."""

    def _named(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        *names, value = args
        if any(type(name) is not str or "." in name for name in names):
            self.refuse("attrgetter of several levels is not followed")
        found = tuple(self.attribute(value, name) for name in names)
        return found if len(found) > 1 else found[0]

    def _printed(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """``print``, of which nothing comes back."""
        if kwargs.get("file") is not None:
            self.refuse_call("print to a file")
        for value in args:
            self.passes(value, "print")

    def _callable(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        return type(args[0]) in _CALLABLE or self.method(args[0], "__call__") is not None

    def _declared(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Rules of the auditor's own settings, which its classes declare."""
        if type(args[0]) not in METACLASSES or not args[0].__module__.startswith(_OWN):
            self.refuse_call("settings.declared")
        return settings.declared(args[0])

    def _super(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self._check_kind(args[0], (type, abc.ABCMeta), "super")
        return Super(args[0], args[1])


_SCALARS = tuple(set(np.sctypeDict.values()) - {np.void, np.object_})


class _Getter:
    """What an ``itemgetter`` or an ``attrgetter`` calls."""


_ITEM, _ATTRIBUTE = _Getter(), _Getter()
SPECIAL: dict[int, Any] = {
    id(_ITEM): Builtins._item,
    id(_ATTRIBUTE): Builtins._named,
    id(operator.itemgetter): lambda self, args, kwargs: Partial(_ITEM, args, {}),
    id(operator.attrgetter): lambda self, args, kwargs: Partial(_ATTRIBUTE, args, {}),
    id(print): Builtins._printed,
    id(settings.declared): Builtins._declared,
    id(issubclass): Builtins._below_class,
    id(copy.deepcopy): Builtins._copied,
    id(dataclasses.replace): Builtins._replace,
    id(isinstance): Builtins._instance,
    id(type): Builtins._kind,
    id(getattr): Builtins._getattr,
    id(hasattr): Builtins._hasattr,
    id(setattr): Builtins._setattr,
    id(callable): Builtins._callable,
    id(super): Builtins._super,
    id(len): Builtins._length,
    id(list): Builtins._listed,
    id(tuple): Builtins._tupled,
    id(sum): Builtins._sum,
    id(any): Builtins._any,
    id(all): Builtins._all,
    id(sorted): Builtins._sorted,
    id(min): lambda self, args, kwargs: self._extreme(args, kwargs, min),
    id(max): lambda self, args, kwargs: self._extreme(args, kwargs, max),
    id(functools.reduce): Builtins._reduced,
    id(object.__setattr__): Builtins._set_plainly,
    id(functools.partial): lambda self, args, kwargs: Partial(args[0], args[1:], kwargs),
}
