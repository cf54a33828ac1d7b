"""Operators, subscripts, loops and conditions of traced code, as methods of the tracing
interpreter.
"""

from __future__ import annotations

import enum
import functools
import operator
import types
from collections import defaultdict, deque
from collections.abc import Iterator
from typing import Any

import numpy as np

from fedrec_auditor.auditor.tracing import gate, known, objects
from fedrec_auditor.auditor.tracing.affine_noise import select
from fedrec_auditor.auditor.tracing.arrays import MaskedEntries
from fedrec_auditor.auditor.tracing.gate import (
    ARRAYS,
    DICTS,
    SET_TYPES,
    TracedError,
    TracedIterator,
)
from fedrec_auditor.auditor.tracing.generator import TracedGenerator
from fedrec_auditor.auditor.tracing.objects import ALLOWED_METACLASSES, NativeMethod, PartialCall
from fedrec_auditor.auditor.tracing.symbols import Symbol, apply_to_values

# Types of values that have entries in a fixed order.
CONTAINER_TYPES = (list, tuple, range, str, bytes, dict, bytearray, deque, defaultdict)
_ARITHMETIC = "add sub mul truediv floordiv mod pow lshift rshift xor matmul neg pos invert"
# Comparisons, with the comparison that exchanged operands need.
_MIRRORED = {"eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
_ACTIONS = {name: getattr(operator, name) for name in (*_ARITHMETIC.split(), *_MIRRORED)}
_ACTIONS |= {"or": operator.or_, "and": operator.and_}
_IDENTIFIED = (list, dict, set, np.ndarray, types.ModuleType, TracedGenerator, types.FunctionType)
# Types whose objects are always true, whatever they contain.
_TRUE = (*ALLOWED_METACLASSES, types.FunctionType, types.BuiltinFunctionType, types.MethodType)
_TRUE += (types.ModuleType, TracedGenerator, np.random.Generator, np.ufunc, functools.partial)
_TRUE += (NativeMethod, PartialCall, TracedIterator, type(...), functools._lru_cache_wrapper)
_SINGLE = (type(None), bool, type(...), type(NotImplemented))
_FAST = (int, float, bool)
_PICKED = (*_FAST, str, Symbol)
_MAX_BITS = 1 << 13


class Operand:
    """An operand of ``a and b`` or ``a < b < c``, compared and tested by the tracing interpreter.

    - ``run``: the tracing interpreter.
    - ``value``: the value of the operand.
    """

    __slots__ = ("run", "value")

    def __init__(self, run: OperationTracer, value: Any) -> None:
        self.run, self.value = run, value

    def __bool__(self) -> bool:
        return self.run.is_true(self.value)

    def _make_comparison(name: str) -> Any:  # type: ignore[misc]
        return lambda a, b: Operand(a.run, a.run.compare(name, a.value, b.value))

    __lt__, __le__, __gt__ = _make_comparison("lt"), _make_comparison("le"), _make_comparison("gt")
    __ge__, __eq__, __ne__ = _make_comparison("ge"), _make_comparison("eq"), _make_comparison("ne")
    __hash__ = None  # type: ignore[assignment]


class OperationTracer(objects.ObjectBuilder):
    """Operators, subscripts, loops and conditions on values of traced code.

    Operators that classes of the traced code define (special methods) are traced step by step.
    Compiled operators are checked and then called.
    """

    def _call_special(self, name: str, mirrored: str, a: Any, b: Any) -> Any:
        for value, other, method in ((a, b, name), (b, a, mirrored)):
            hook = self.find_method(value, f"__{method}__")
            result = NotImplemented if hook is None else hook(other)
            if result is not NotImplemented:
                return result
        return NotImplemented

    def apply_binary(self, name: str, a: Any, b: Any) -> Any:
        """Returns the result of a binary operator on ``a`` and ``b`` in traced code.

        ``name``: the operator, such as "add" for ``a + b`` or "mul" for ``a * b``.
        """
        self.count_steps()
        kind_a, kind_b, action = type(a), type(b), _ACTIONS[name]
        if kind_a in _FAST and kind_b in _FAST:
            if name in ("pow", "lshift") and kind_a is kind_b is int and b > 0:
                bits = a.bit_length() * b if name == "pow" else a.bit_length() + b
                if bits > _MAX_BITS:
                    self.refuse(f"the code computes an integer of more than {_MAX_BITS:,} bits")
            return self.run_code(lambda: action(a, b))
        if name == "mul":
            for value, many in ((a, b), (b, a)):
                if type(value) in (list, tuple, str, bytes) and type(many) in (int, bool):
                    self.refuse_too_long(len(value) * max(int(many), 0))
        joined = name == "add" and kind_a is kind_b
        if joined and kind_a in (list, tuple, str, bytes):
            self.refuse_too_long(len(a) + len(b))
        if kind_a in (list, tuple) and (joined or (name == "mul" and kind_b in _FAST)):
            result = self.run_code(lambda: action(a, b))
            return self.record_new(result) if kind_a is list else result
        if name == "or" and kind_a in (*ALLOWED_METACLASSES, types.UnionType):
            return a | b
        result = self._call_special(name, f"r{name}", a, b)
        return self.call_compiled(action, (a, b), {}, name) if result is NotImplemented else result

    def apply_unary(self, name: str, value: Any) -> Any:
        """Returns the result of a unary operator on ``value`` in traced code.

        ``name``: the operator: "neg" for ``-value``, "pos" for ``+value`` or "invert" for
        ``~value``.
        """
        hook = self.find_method(value, f"__{name}__")
        return hook() if hook else self.call_compiled(_ACTIONS[name], (value,), {}, name)

    def apply_in_place(self, name: str, before: Any, value: Any) -> Any:
        """Returns the result of an augmented assignment such as ``before += value`` in traced code.

        ``name``: the operator, such as "add" for ``+=`` or "mul" for ``*=``.
        """
        kind = type(before)
        hook = self.find_method(before, f"__i{name}__")
        if hook is not None:
            return hook(value)
        if kind is list and name == "add":
            self.check_write(before)
            before += list(self.iterate(value))
            return before
        if kind in (*ARRAYS, dict, set, bytearray, list):
            self.check_write(before)
            return self.call_compiled(getattr(operator, f"i{name}"), (before, value), {}, name)
        return self.apply_binary(name, before, value)

    def compare(self, name: str, a: Any, b: Any) -> Any:
        """Returns the result of a comparison of ``a`` and ``b`` in traced code.

        ``name``: the comparison, such as "lt" for ``a < b``, "eq" for ``a == b`` or "not in".
        """
        self.count_steps()
        if name in ("is", "is not"):
            return self._is_identical(a, b) is (name == "is")
        if name in ("in", "not in"):
            return self.contains(b, a) is (name == "in")
        action, kinds = _ACTIONS[name], (type(a), type(b))
        if kinds[0] in _FAST and kinds[1] in _FAST:
            return action(a, b)
        result = self._call_special(name, _MIRRORED[name], a, b)
        if result is not NotImplemented:
            return result
        own = any(self.is_python_class(k) and not issubclass(k, tuple) for k in kinds)
        if name in ("eq", "ne") and (
            all(k in ALLOWED_METACLASSES for k in kinds)
            or (own and self._has_identity_eq(a) and self._has_identity_eq(b))
        ):
            return (a is b) is (name == "eq")
        return self.call_compiled(action, (a, b), {}, name)

    def _has_identity_eq(self, value: Any) -> bool:
        kind = type(value)
        plain = kind in known.ALLOWED_ATTRS or value is None
        return plain or self.look_up(kind, "__eq__") is object.__eq__

    def _is_identical(self, a: Any, b: Any) -> bool:
        """Evaluates ``a is b``.

        Raises NotTraced for numbers and text, whose identity depends on the Python implementation.
        """
        kinds = [self.get_safe_class(a), self.get_safe_class(b)]
        if bool in kinds and (Symbol in kinds or MaskedEntries in kinds):
            self.refuse("the code compares a random draw by 'is'. Use '=='")
        for kind in kinds:
            own = self.is_python_class(kind) and kind not in (tuple, *known.ALLOWED_ATTRS)
            if own or kind in (*_SINGLE, *ALLOWED_METACLASSES, *_IDENTIFIED):
                return a is b
        self.refuse("the code compares numbers or text by 'is'. Use '=='")

    def contains(self, container: Any, value: Any) -> bool:
        """Returns the result of ``value in container`` in traced code."""
        kind = self.get_safe_class(container)
        hook = self.find_method(container, "__contains__")
        if hook is not None:
            return self.is_true(hook(value))
        if kind in DICTS:
            self.check_key_lookup(container, value)
            return bool(self.run_code(lambda: value in container))
        if kind in (list, tuple, *SET_TYPES, str, bytes, range, *ARRAYS):
            return bool(self.call_compiled(operator.contains, (container, value), {}, "in"))
        return any(self.is_true(self.compare("eq", e, value)) for e in self.iterate(container))

    def get_entry(self, value: Any, index: Any) -> Any:
        """Returns ``value[index]`` in traced code."""
        self.count_steps()
        kind = self.get_safe_class(value)
        if kind in DICTS:
            self.check_key_lookup(value, index)
            missing = kind is defaultdict and not self.run_code(lambda: index in value)
            if missing:
                self.check_write(value)
            result = self.run_code(lambda: value[index])
            if missing:
                self.record_created_results(result, {}, "a dict")
            return result
        if kind in CONTAINER_TYPES:
            self.record_content(value)
            self.check_input(index, "an index")
            result = self.run_code(lambda: value[index])
            return self.record_new(result) if type(index) is slice else result
        if kind is enum.EnumType and type(index) is str:
            return self.run_code(lambda: value._member_map_[index])
        if issubclass(kind, tuple) and self.look_up(kind, "__getitem__") is tuple.__getitem__:
            self.check_input(index, "an index")
            return self.run_code(lambda: tuple.__getitem__(value, index))
        hook = self.find_method(value, "__getitem__")
        if hook is not None:
            return hook(index)
        return self.call_compiled(operator.getitem, (value, index), {}, "[]")

    def set_entry(self, owner: Any, index: Any, value: Any) -> None:
        """Executes ``owner[index] = value`` in traced code.

        Raises NotTraced for a container that the present run of the traced code did not create.
        """
        hook = self.find_method(owner, "__setitem__")
        if hook is not None:
            hook(index, value)
            return
        self.check_write(owner)
        kind = type(owner)
        if kind in DICTS:
            self.check_key_lookup(owner, index)
        elif kind is list:
            self.check_input(index, "an index")
            if type(index) is slice:
                value = list(self.iterate(value))
            index = self.fix_value(index)
        else:
            self.call_compiled(operator.setitem, (owner, index, value), {}, "[]=")
            return
        self.run_code(lambda: operator.setitem(owner, index, value))

    def update_entry_in_place(self, name: str, owner: Any, index: Any, value: Any) -> None:
        """Executes an augmented assignment such as ``owner[index] += value`` in traced code.

        ``name``: the operator, such as "add" for ``+=``.
        """
        self.set_entry(owner, index, self.apply_in_place(name, self.get_entry(owner, index), value))

    def set_attribute_in_place(self, name: str, owner: Any, attribute: str, value: Any) -> None:
        """Executes an augmented assignment such as ``owner.attribute += value`` in traced code.

        ``name``: the operator, such as "add" for ``+=``.
        """
        before = self.get_attribute(owner, attribute)
        self.set_attribute(owner, attribute, self.apply_in_place(name, before, value))

    def delete_entry(self, owner: Any, index: Any) -> None:
        """Executes ``del owner[index]`` in traced code.

        Raises NotTraced for a container that the present run of the traced code did not create.
        """
        self.check_write(owner)
        self.check_kind(owner, (list, dict), "del")
        if type(owner) is dict:
            self.check_key_lookup(owner, index)
        self.check_input(index, "an index")
        self.run_code(lambda: operator.delitem(owner, index))

    def check_kind(self, value: Any, kinds: tuple[Any, ...], name: str) -> None:
        """Raises NotTraced unless the type of ``value`` is one of ``kinds``.

        ``name``: name of the operation for the message.
        """
        if type(value) not in kinds:
            self.refuse(f"tracing does not support {name} of the type {type(value).__name__}")

    def check_key_lookup(self, container: Any, key: Any) -> None:
        """Raises NotTraced if looking up ``key`` in the dict ``container`` could run code that is
        not traced.

        Comparing the key with the keys of the dict must call only built-in code.
        """
        self.check_input(key, "a dict")
        self.record_content(container)
        for known_key in container:
            if type(known_key) not in (str, int):
                self.check_input(known_key, "a dict")

    def make_set(self, entries: Any) -> Any:
        """Returns the set ``{a, b}`` for the entries a, b of ``entries`` in traced code."""
        passed = [self.check_input(entry, "a set") for entry in entries]
        return self.record_new(self.run_code(lambda: set(passed)))

    def make_dict(self, *pairs: Any) -> Any:
        """Returns the dict ``{a: b, **c}`` of traced code.

        ``pairs``: (a, b) for each entry, and (c,) for each dict to merge.
        """
        result: Any = self.record_new({})
        for key, *values in pairs:
            if not values:
                self.check_kind(key, (dict,), "**")
            for name, value in ((key, *values),) if values else key.items():
                self.check_input(name, "a dict")
                self.run_code(functools.partial(result.__setitem__, name, value))
        return result

    def iterate(self, value: Any, shape: Any = None) -> Iterator[Any]:
        """Returns an iterator over the entries of ``value``, as a loop in traced code uses.

        ``shape``: loop targets, as in ``unpack``, such as (None, "*") for ``for a, *b in value``;
            None for a single name.
        """
        entries = self._iter_entries(value)
        return entries if shape is None else (self.unpack(entry, shape) for entry in entries)

    def _iter_entries(self, value: Any) -> Iterator[Any]:
        kind = self.get_safe_class(value)
        if kind is TracedIterator:
            values: Iterator[Any] = value.values
            return values
        if kind in CONTAINER_TYPES or kind in gate.DICT_VIEW_TYPES or kind in SET_TYPES:
            self.record_content(value)
            if kind in SET_TYPES:
                self.check_set_order_stable(value)
            return self.iter_counted(value)
        if kind in (Symbol, MaskedEntries):
            return self._iter_entries(value.to_concrete())
        if kind in ARRAYS:
            self.check_input(value, "a loop")
            return self.iter_counted(self.run_code(lambda: [value[k] for k in range(len(value))]))
        if kind is enum.EnumType:
            return iter([value._member_map_[name] for name in value._member_names_])
        if issubclass(kind, tuple) and self.look_up(kind, "__iter__") is tuple.__iter__:
            return self.iter_counted(tuple.__iter__(value))
        hook = self.find_method(value, "__iter__")
        if hook is not None:
            return self._iter_next(hook())
        if kind in known.ALLOWED_ATTRS:
            raise TracedError(TypeError(f"{kind.__name__!r} object is not iterable"))
        self.refuse(f"tracing does not support a loop over the type {kind.__name__}")

    def _iter_next(self, value: Any) -> Iterator[Any]:
        hook = self.find_method(value, "__next__")
        if hook is None:
            yield from self._iter_entries(value)
            return
        while True:
            try:
                entry = hook()
            except TracedError as thrown:
                if type(thrown.error) is StopIteration:
                    return
                raise
            yield entry

    def unpack(self, value: Any, shape: Any) -> Any:
        """Returns the entries of ``value`` for assignment to several targets, as in ``a, (b, *c) =
        value``.

        ``shape``: the assignment targets. None stands for a name, "*" for a starred name, and a
            tuple for nested targets.
        """
        if type(shape) is not tuple:
            return value
        entries, least = list(self.iterate(value)), len(shape) - ("*" in shape)
        if len(entries) < least or (least == len(shape) != len(entries)):
            raise TracedError(ValueError(f"expected {len(shape)} values, got {len(entries)}"))
        if "*" in shape:
            place = shape.index("*")
            middle = slice(place, place + len(entries) - least)
            entries[middle] = [self.record_new(entries[middle])]
        return tuple(map(self.unpack, entries, shape))

    def is_true(self, value: Any) -> bool:
        """Whether ``value`` counts as true, as in ``if value`` of traced code.

        If the answer depends on random draws, the execution path is restricted to one answer.
        """
        self.count_steps(2)
        kind = self.get_safe_class(value)
        if kind in known.ALLOWED_ATTRS or kind in gate.SYMBOLIC_TYPES or value is None:
            return bool(self.run_code(lambda: bool(value)))
        for name in ("__bool__", "__len__"):
            hook = self.find_method(value, name)
            if hook is not None:
                return self.is_true(hook())
        if kind in gate.DICT_VIEW_TYPES:
            return len(value) > 0
        if issubclass(kind, tuple):
            return tuple.__len__(value) > 0
        if not self.is_python_class(kind) and kind not in _TRUE:
            self.refuse(f"tracing does not support a condition of the type {kind.__name__}")
        return True

    def run_if_else(self, test: Any, read: Any, body: Any, orelse: Any) -> Any:
        """Returns the value of ``body() if test else orelse()`` in traced code.

        If possible, both functions are called, and the result is a symbol (a value that depends on
        random draws). The execution path then does not branch.

        ``read``: function that returns the values which ``body`` and ``orelse`` read.
        """
        # Both functions are called only if ``test`` is not concrete and they read only numbers and
        # texts.
        if type(test) is Symbol and not self.rng.path.eager and self._are_plain(read):
            values = body(), orelse()
            if all(type(value) in _PICKED for value in values):
                return self.run_code(lambda: apply_to_values(select, test, *values))
        return body() if self.is_true(test) else orelse()

    def _are_plain(self, read: Any) -> bool:
        try:
            return all(type(value) in _PICKED for value in read())
        except NameError:
            return False
