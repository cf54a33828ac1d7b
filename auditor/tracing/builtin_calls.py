"""Replacements for built-in functions, such as ``len``, ``isinstance`` and ``zip``, in traced code.

A function is replaced if it reads objects of the traced code or returns a lazy iterator. Each
replacement receives the tracing interpreter, the tuple of arguments and the dict of keyword
arguments of the call.
"""

from __future__ import annotations

import abc
import copy
import dataclasses
import enum
import functools
import itertools
import operator
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

from fedrec_auditor.auditor.tracing import gate, known, objects
from fedrec_auditor.auditor.tracing.equivalents import EQUIVALENTS, find_extreme, python_sorted
from fedrec_auditor.auditor.tracing.gate import ARRAYS, SET_TYPES, TracedError, TracedIterator
from fedrec_auditor.auditor.tracing.objects import MISSING, NativeMethod, PartialCall, SuperProxy
from fedrec_auditor.auditor.tracing.operations import CONTAINER_TYPES, OperationTracer
from fedrec_auditor.auditor.tracing.symbols import Symbol
from fedrec_auditor.targets import settings

_NO_HOOK = vars(object)["__subclasshook__"]
_OWN = settings.__name__.partition(".")[0]
_CALLABLE: tuple[Any, ...] = (
    types.FunctionType, types.BuiltinFunctionType, types.MethodType, NativeMethod,
    PartialCall, functools.partial, type,
)  # fmt: skip
# Number of leading arguments that are iterables; the other arguments are plain values.
_LOOPED: dict[Any, int] = {
    zip: sys.maxsize, itertools.chain: sys.maxsize, itertools.product: sys.maxsize,
    itertools.zip_longest: sys.maxsize, itertools.pairwise: 1, enumerate: 1, itertools.islice: 1,
    itertools.combinations: 1, itertools.permutations: 1, itertools.repeat: 1, itertools.count: 0,
}  # fmt: skip


def _call_lazy(function: Any, run: OperationTracer, args: Any, kwargs: Any) -> Any:
    """Calls a lazy function of iterators, such as ``zip``, with iterators of the interpreter."""
    loops, plain = args[: _LOOPED[function]], args[_LOOPED[function] :]
    if function is not itertools.repeat:
        loops = [TracedIterator(run.iterate(value)).values for value in loops]
    plain = [run.fix_value(run.check_input(value, "an iterator")) for value in plain]
    named = {k: run.fix_value(run.check_input(v, "an iterator")) for k, v in kwargs.items()}
    return TracedIterator(run.iter_counted(run.run_code(lambda: function(*loops, *plain, **named))))


def _iter(run: OperationTracer, args: Any, kwargs: Any) -> Any:
    return TracedIterator(run.iterate(*args)) if len(args) == 1 else run.refuse_call("iter(f, end)")


def _next(run: OperationTracer, args: Any, kwargs: Any) -> Any:
    if type(args[0]) is not TracedIterator:
        hook = run.find_method(args[0], "__next__")
        if hook is None:
            run.refuse("the code calls next on an iterator that this call did not create")
        return hook()
    for entry in args[0].values:
        return entry
    if len(args) > 1:
        return args[1]
    raise TracedError(StopIteration())


def _reversed(run: OperationTracer, args: Any, kwargs: Any) -> Any:
    value = list(run.iterate(args[0])) if type(args[0]) in ARRAYS else args[0]
    run.check_kind(value, (*CONTAINER_TYPES, *gate.DICT_VIEW_TYPES), "reversed")
    return TracedIterator(run.iter_counted(reversed(value)))


def _sorted(run: OperationTracer, args: Any, kwargs: Any) -> Any:
    reverse, key = run.is_true(kwargs.get("reverse", False)), kwargs.get("key")
    if key is not None:
        return run.call(python_sorted, (args[0], key, reverse), {})
    value = args[0] if type(args[0]) in SET_TYPES else run.record_new(list(run.iterate(args[0])))
    return run.record_new(run.call_compiled(sorted, (value,), {"reverse": reverse}, "sorted"))


def _pick_best(function: Any, is_better: Any, run: OperationTracer, args: Any, kwargs: Any) -> Any:
    key = kwargs.pop("key", None)
    if key is not None:
        return run.call(find_extreme, (args[0] if len(args) == 1 else args, key, is_better), {})
    if len(args) == 1 and type(args[0]) not in SET_TYPES:
        args = (tuple(run.iterate(args[0])),)
    return run.call_compiled(function, args, kwargs, function.__name__)


def _iter_classes(classes: Any) -> Iterator[Any]:
    for part in classes if type(classes) is tuple else (classes,):
        if type(part) is tuple:
            yield from _iter_classes(part)
        elif type(part) is types.UnionType:
            yield from part.__args__
        else:
            yield part


def _is_derived(run: OperationTracer, kind: Any, part: Any) -> bool:
    if type(part) is abc.ABCMeta and part.__module__ in ("numbers", "collections.abc"):
        known_kind = known.SUBCLASS_TABLE.get((id(kind), id(part)))
        if known_kind is None and part.__module__ != "numbers":
            run.refuse(f"tracing does not support isinstance of {kind.__name__}, {part.__name__}")
        return bool(known_kind)
    if type(part) is abc.ABCMeta and run.look_up(part, "__subclasshook__") is not _NO_HOOK:
        run.refuse(f"the code uses {part.__name__}, which overrides __subclasshook__")
    tensor = getattr(sys.modules.get("torch"), "Tensor", None)
    if type(part) not in (type, abc.ABCMeta, enum.EnumType) and part is not tensor:
        run.refuse("tracing supports isinstance and issubclass only for ordinary classes")
    return any(base is part for base in kind.__mro__)


def is_instance(run: OperationTracer, args: Any, kwargs: Any = None) -> bool:
    """Returns the result of ``isinstance(value, classes)`` in traced code.

    ``run``: the tracing interpreter.
    ``args``: the pair (value, classes).
    """
    value, classes = args
    kind = run.get_class(value)
    # Only the base classes of the value's class are compared; no ``__instancecheck__`` is called.
    # For the abstract classes of ``numbers`` and ``collections.abc``, a table is used.
    return any(_is_derived(run, kind, part) for part in _iter_classes(classes))


def _is_subclass(run: OperationTracer, args: Any, kwargs: Any) -> bool:
    run.check_kind(args[0], objects.ALLOWED_METACLASSES, "issubclass")
    return any(_is_derived(run, args[0], part) for part in _iter_classes(args[1]))


def can_catch(run: OperationTracer, error: BaseException, classes: Any) -> bool:
    """Whether the clause ``except classes`` in traced code catches ``error``.

    ``run``: the tracing interpreter.
    """
    return any(any(base is kind for base in type(error).__mro__) for kind in _iter_classes(classes))


def _type(run: OperationTracer, args: Any, kwargs: Any) -> Any:
    if len(args) != 1 or kwargs:
        run.refuse("the code creates a class by type(). Use a class statement")
    return run.get_attribute(args[0], "__class__")


def _getattr(run: OperationTracer, args: Any, kwargs: Any) -> Any:
    run.check_kind(args[1], (str,), "getattr")
    try:
        return run.get_attribute(args[0], args[1])
    except TracedError as thrown:
        if len(args) > 2 and isinstance(thrown.error, AttributeError):
            return args[2]
        raise


def _setattr(run: OperationTracer, args: Any, kwargs: Any) -> None:
    run.check_kind(args[1], (str,), "setattr")
    run.set_attribute(*args)


def _object_setattr(run: OperationTracer, args: Any, kwargs: Any) -> None:
    run.check_write(args[0])
    run.check_kind(args[1], (str,), "setattr")
    run.set_attribute_unchecked(*args)


def _len(run: OperationTracer, args: Any, kwargs: Any) -> Any:
    value = run.fix_value(args[0]) if type(args[0]) is Symbol else args[0]
    kind = run.get_safe_class(value)
    if kind in CONTAINER_TYPES or kind in gate.DICT_VIEW_TYPES or kind in SET_TYPES:
        run.record_content(value)
        return len(value)
    if issubclass(kind, tuple) and run.look_up(kind, "__len__") is tuple.__len__:
        return tuple.__len__(value)
    hook = run.find_method(value, "__len__")
    return hook() if hook else run.call_compiled(len, (value,), {}, "len")


def _replace(run: OperationTracer, args: Any, kwargs: Any) -> Any:
    (value,) = args
    parts = [part.name for part in run.get_fields(type(value)) or () if part.init]
    return run.call(type(value), (), {n: run.get_attribute(value, n) for n in parts} | kwargs)


def _deepcopy(run: OperationTracer, args: Any, kwargs: Any) -> Any:
    """Replaces ``copy.deepcopy`` for values of the supported types."""
    (value,) = args
    kind = run.get_safe_class(value)
    if kind in (list, tuple, dict):
        entries = {k: _deepcopy(run, (v,), {}) for k, v in value.items()} if kind is dict else [
            _deepcopy(run, (entry,), {}) for entry in value]  # fmt: skip
        run.record_content(value)
        return tuple(entries) if kind is tuple else run.record_new(entries)
    if kind in ARRAYS:
        return run.call(NativeMethod(value, "copy"), (), {})
    if kind not in gate.ATOMIC_TYPES:
        run.refuse(f"tracing does not support copy.deepcopy of the type {kind.__name__}")
    return value


def _get_items(run: OperationTracer, args: Any, kwargs: Any) -> Any:
    *places, value = args
    result = tuple(run.get_entry(value, place) for place in places)
    return result if len(result) > 1 else result[0]


def _print(run: OperationTracer, args: Any, kwargs: Any) -> None:
    """Replaces ``print``, and prints nothing."""
    if kwargs.get("file") is not None:
        run.refuse_call("print to a file")
    for value in args:
        run.check_input(value, "print")


def _get_allowed_values(run: OperationTracer, args: Any, kwargs: Any) -> Any:
    """Returns the allowed values that a settings class of this package declares, by field."""
    if type(args[0]) not in objects.ALLOWED_METACLASSES or not args[0].__module__.startswith(_OWN):
        run.refuse_call("settings.declared")
    return settings.get_allowed_values(args[0])


def make_super(run: OperationTracer, args: Any, kwargs: Any = None) -> Any:
    """Returns the result of ``super(owner, value)`` in traced code.

    ``run``: the tracing interpreter.
    ``args``: the pair (owner, value).
    """
    run.check_kind(args[0], (type, abc.ABCMeta), "super")
    return SuperProxy(args[0], args[1])


def _make_replacement(function: Any) -> Callable[..., Any]:
    return lambda run, args, kwargs: run.call(function, args, kwargs)


# Replacements, by the id of the built-in function that they replace.
BUILTIN_REPLACEMENTS: dict[int, Callable[[OperationTracer, Any, Any], Any]] = {
    **{key: _make_replacement(function) for key, function in EQUIVALENTS.items()},
    **{id(function): functools.partial(_call_lazy, function) for function in _LOOPED},
    id(operator.itemgetter): lambda run, args, kwargs: PartialCall(_get_items, args, {}),
    id(_get_items): _get_items,
    id(next): _next,
    id(iter): _iter,
    id(reversed): _reversed,
    id(print): _print,
    id(settings.get_allowed_values): _get_allowed_values,
    id(issubclass): _is_subclass,
    id(copy.deepcopy): _deepcopy,
    id(dataclasses.replace): _replace,
    id(isinstance): is_instance,
    id(type): _type,
    id(getattr): _getattr,
    id(hasattr): lambda run, args, kwargs: _getattr(run, (*args, MISSING), {}) is not MISSING,
    id(setattr): _setattr,
    id(object.__setattr__): _object_setattr,
    id(object.__init__): lambda run, args, kwargs: None,
    id(callable): lambda run, args, kwargs: (
        type(args[0]) in _CALLABLE or run.find_method(args[0], "__call__") is not None
    ),
    id(super): make_super,
    id(len): _len,
    id(list): lambda run, args, kwargs: run.record_new([*run.iterate(args[0])] if args else []),
    id(tuple): lambda run, args, kwargs: tuple(run.iterate(args[0])) if args else (),
    id(sorted): _sorted,
    id(min): functools.partial(_pick_best, min, operator.lt),
    id(max): functools.partial(_pick_best, max, operator.gt),
    id(functools.partial): lambda run, args, kwargs: PartialCall(args[0], args[1:], kwargs),
}
