"""Calls of interpreted code: functions of Python in their turn, everything else at the gate."""

from __future__ import annotations

import abc
import ast
import copy
import dataclasses
import enum
import functools
import itertools
import operator
import types
from collections import defaultdict, deque
from collections.abc import Iterator
from typing import Any

import numpy as np

from fedrec_auditor.auditor.tracing import known
from fedrec_auditor.auditor.tracing.arrays import MaskedEntries, TracedArray
from fedrec_auditor.auditor.tracing.frames import Frame, Function, scope_of
from fedrec_auditor.auditor.tracing.gate import Lazy, Thrown
from fedrec_auditor.auditor.tracing.generator import TracedGenerator
from fedrec_auditor.auditor.tracing.objects import (
    _METACLASSES,
    _MISSING,
    Bound,
    NativeMethod,
    Objects,
    Partial,
    Super,
)
from fedrec_auditor.auditor.tracing.state import is_compiled
from fedrec_auditor.auditor.tracing.symbols import Symbol
from fedrec_auditor.auditor.tracing.syntax import syntax_of

_DEEPEST = 60
_SEQUENCES = (list, tuple, range, str, bytes, dict, bytearray, deque, defaultdict)
_VIEWS = (type({}.keys()), type({}.values()), type({}.items()))
_CALLABLE = (types.FunctionType, types.BuiltinFunctionType, types.MethodType, Function, Bound)
_CALLABLE += (NativeMethod, Partial, functools.partial, type)
_CHANGED_ARRAYS = {"shuffle"}


class Calls(Objects):
    """Calls, of anything."""

    depth = 0

    def run_body(self, function: Function, frame: Frame) -> Any:
        """The result of a function whose arguments stand in ``frame``."""
        raise NotImplementedError

    def evaluate(self, node: ast.expr, frame: Frame) -> Any:
        """The value of an expression."""
        raise NotImplementedError

    def binary(self, action: Any, name: str, a: Any, b: Any) -> Any:
        """``a + b``, and its like."""
        raise NotImplementedError

    def call(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """``function(*args, **kwargs)``."""
        self.step()
        kind = self.kind(function)
        special = _SPECIAL.get(id(function))
        if special is not None:
            return special(self, args, kwargs)
        if kind is Function:
            return self._interpret(function, args, kwargs)
        if kind is types.FunctionType:
            if id(function) in known.KNOWN or id(function) in self.draws:
                return self.call_known(function, args, kwargs, _name(function))
            return self._interpret(self.function_of(function), args, kwargs)
        if kind is Bound:
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
        if kind in _METACLASSES and self.is_python_class(function):
            return self.construct(function, args, kwargs)
        if is_compiled(function):
            return self.call(function.py_func, args, kwargs)
        if kind in _METACLASSES or kind is types.BuiltinFunctionType:
            self.refuse_call(_name(function))
        hook = self.method(function, "__call__")
        if hook is not None:
            return self.call(Bound(self.in_class(kind, "__call__"), function), args, kwargs)
        self.refuse_call(_name(function))

    def tables(self) -> tuple[dict[int, Any], ...]:
        """The tables of compiled functions."""
        return known.KNOWN, self.draws, known.WRITING, self.special

    def function_of(self, function: types.FunctionType) -> Function:
        """A function that was made outside of the call, with its syntax tree."""
        code = function.__code__
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
            raise Thrown(TypeError(f"{function.name}() got an unexpected argument {[*left][0]!r}"))
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
        if kind is TracedGenerator:
            self._check_draw(name, args, kwargs)
            if name == "shuffle":
                self.may_write(args[0] if args else kwargs.get("x"))
            return self.through(getattr(value, name), args, kwargs, f"Generator.{name}")
        if known.changes(np.ndarray if kind is TracedArray else kind, name):
            self.may_write(value)
        if kind is list and name in ("append", "insert", "extend", "sort", "pop", "clear"):
            return self._of_list(value, name, args, kwargs)
        if kind is deque and name in ("append", "appendleft", "pop", "popleft", "clear"):
            return self.run(lambda: getattr(value, name)(*args))
        if kind in (dict, defaultdict) and name in ("get", "setdefault", "pop", "items", "values", "keys", "copy"):
            for key in args[:1]:
                self.check_key(value, key)
            found = self.run(lambda: getattr(value, name)(*args))
            return self.own(found) if name == "copy" else found
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
            return value.values  # type: ignore[no-any-return]
        if kind in _SEQUENCES or kind in _VIEWS:
            self.look(value)
            return iter(value)
        if kind in (set, frozenset):
            self.look(value)
            self.check_order(value)
            return iter(value)
        if kind in (Symbol, MaskedEntries):
            return self.iterate(value.plain())
        if kind in (np.ndarray, TracedArray):
            self.passes(value, "a loop")
            rows = self.run(lambda: [value[k] for k in range(len(value))])
            return iter(rows)
        if kind is enum.EnumType:
            return iter([value._member_map_[name] for name in value._member_names_])
        if issubclass(kind, tuple) and self.in_class(kind, "__iter__") is tuple.__iter__:
            return tuple.__iter__(value)
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
        if kind in _VIEWS:
            return len(value) > 0
        return True

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
            strict = bool(kwargs.get("strict", False))
            values = zip(*[self.iterate(a) for a in args], strict=strict)  # type: ignore[assignment]
        elif name == "enumerate":
            start = kwargs.get("start", args[1] if len(args) > 1 else 0)
            values = enumerate(self.iterate(args[0]), start)  # type: ignore[assignment]
        elif name == "reversed":
            if type(args[0]) in (np.ndarray, TracedArray):
                values = reversed(list(self.iterate(args[0])))  # type: ignore[assignment]
            else:
                self._check_kind(args[0], _SEQUENCES + _VIEWS, name)
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
            rest = [self.decided(a) if name != "repeat" else a for a in args[first:]]
            values = self.run(lambda: getattr(itertools, name)(*given, *rest, **kwargs))
        elif name == "accumulate":
            values = self._accumulated(*args, **kwargs)  # type: ignore[assignment]
        else:
            self.refuse_call(name)
        return Lazy(iter(values))

    def _accumulated(self, entries: Any, function: Any = None) -> Iterator[Any]:
        total = _MISSING
        for entry in self.iterate(entries):
            if total is _MISSING:
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
        reverse = bool(kwargs.get("reverse", False))
        if key is None:
            if type(value) not in (set, frozenset):
                value = list(self.iterate(value))
            return self.own(self.through(sorted, (value,), {"reverse": reverse}, "sorted",
                                         orderless=True))  # fmt: skip
        entries = list(self.iterate(value))
        keys = [self.passes(self.call(key, (e,), {}), "sorted") for e in entries]
        order = self.run(
            lambda: sorted(range(len(keys)), key=keys.__getitem__, reverse=reverse)
        )
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
            return issubclass(kind, part)
        if type(part) not in (type, abc.ABCMeta, enum.EnumType):
            self.refuse("isinstance of what is no plain class is not followed")
        return any(base is part for base in kind.__mro__)

    def _kind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if len(args) != 1 or kwargs:
            self.refuse("it makes a class by type()")
        return self.kind_of(args[0])

    def _getattr(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self._check_kind(args[1], (str,), "getattr")
        try:
            return self.attribute(args[0], args[1])
        except Thrown as thrown:
            if len(args) > 2 and isinstance(thrown.error, AttributeError):
                return args[2]
            raise

    def _hasattr(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        return self._getattr((*args, _MISSING), {}) is not _MISSING

    def _setattr(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._check_kind(args[1], (str,), "setattr")
        self.set_attribute(*args)

    def _set_plainly(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.may_write(args[0])
        self.set_plainly(*args)

    def _length(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        (value,) = args
        kind = type(value)
        if kind in _SEQUENCES or kind in _VIEWS or kind in (set, frozenset):
            self.look(value)
            return len(value)
        if issubclass(kind, tuple) and self.in_class(kind, "__len__") is tuple.__len__:
            return tuple.__len__(value)
        hook = self.method(value, "__len__")
        return hook() if hook else self.through(len, args, kwargs, "len")

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
        kept = {f.name: self.attribute(value, f.name) for f in self.parts_of(type(value)) or () if f.init}
        return self.call(type(value), (), kept | kwargs)

    def _below_class(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        self._check_kind(args[0], _METACLASSES, "issubclass")
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

    def entry(self, value: Any, index: Any) -> Any:
        """``value[index]``."""
        raise NotImplementedError

    def _named(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        *names, value = args
        if any(type(name) is not str or "." in name for name in names):
            self.refuse("attrgetter of several levels is not followed")
        found = tuple(self.attribute(value, name) for name in names)
        return found if len(found) > 1 else found[0]

    def _callable(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        return type(args[0]) in _CALLABLE or self.method(args[0], "__call__") is not None

    def _super(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self._check_kind(args[0], (type, abc.ABCMeta), "super")
        return Super(args[0], args[1])


_NAMED = (types.FunctionType, types.BuiltinFunctionType, types.MethodType, type, abc.ABCMeta)
_NAMED += (types.MethodDescriptorType, types.WrapperDescriptorType, types.MethodWrapperType)
_SINGLE = {"random", "standard_normal", "standard_exponential", "standard_gamma"}
_SCALARS = tuple(set(np.sctypeDict.values()) - {np.void, np.object_})


class _Getter:
    """What an ``itemgetter`` or an ``attrgetter`` calls."""


_ITEM, _ATTRIBUTE = _Getter(), _Getter()
_SPECIAL: dict[int, Any] = {
    id(_ITEM): Calls._item,
    id(_ATTRIBUTE): Calls._named,
    id(operator.itemgetter): lambda self, args, kwargs: Partial(_ITEM, args, {}),
    id(operator.attrgetter): lambda self, args, kwargs: Partial(_ATTRIBUTE, args, {}),
    id(issubclass): Calls._below_class,
    id(copy.deepcopy): Calls._copied,
    id(dataclasses.replace): Calls._replace,
    id(isinstance): Calls._instance,
    id(type): Calls._kind,
    id(getattr): Calls._getattr,
    id(hasattr): Calls._hasattr,
    id(setattr): Calls._setattr,
    id(callable): Calls._callable,
    id(super): Calls._super,
    id(len): Calls._length,
    id(list): Calls._listed,
    id(tuple): Calls._tupled,
    id(sum): Calls._sum,
    id(any): Calls._any,
    id(all): Calls._all,
    id(sorted): Calls._sorted,
    id(min): lambda self, args, kwargs: self._extreme(args, kwargs, min),
    id(max): lambda self, args, kwargs: self._extreme(args, kwargs, max),
    id(functools.reduce): Calls._reduced,
    id(object.__setattr__): Calls._set_plainly,
    id(functools.partial): lambda self, args, kwargs: Partial(args[0], args[1:], kwargs),
}


def _name(function: Any) -> str:
    if not any(type(function) is kind for kind in _NAMED):
        kind = type(function)
        return f"an object of {kind.__module__}.{kind.__name__}"
    name = getattr(function, "__qualname__", None) or getattr(function, "__name__", None)
    module = getattr(function, "__module__", None)
    if not isinstance(name, str):
        return "a function without a name"
    return name if not isinstance(module, str) or module == "builtins" else f"{module}.{name}"
