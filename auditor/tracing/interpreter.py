"""An interpreter of Python functions over symbols: whatever it does not know is refused.

It runs a function by its syntax tree. Names, control flow, closures and objects of Python classes
are its own; everything else is called through the gate. It writes to nothing that the call did not
make, and patches nothing.
"""

from __future__ import annotations

import ast
import functools
import operator
import sys
from collections import defaultdict
from typing import Any

import numpy as np

from fedrec_auditor.auditor.tracing.arrays import TracedArray
from fedrec_auditor.auditor.tracing.expressions import BINARY
from fedrec_auditor.auditor.tracing.frames import Frame, Function, scope_of
from fedrec_auditor.auditor.tracing.gate import Lazy, Thrown
from fedrec_auditor.auditor.tracing.generator_functions import BREAK, CONTINUE, GeneratorFunctions

_INPLACE = {
    name: getattr(operator, f"i{name}")
    for name in [
        "add",
        "sub",
        "mul",
        "truediv",
        "floordiv",
        "mod",
        "pow",
        "lshift",
        "rshift",
        "xor",
        "matmul",
    ]
} | {"or": operator.ior, "and": operator.iand}


class _Returned:
    """What a function returns."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class Interpreter(GeneratorFunctions):
    """Statements, and the functions that they make up."""

    def run_body(self, function: Function, frame: Frame) -> Any:
        """The result of a function whose arguments stand in ``frame``."""
        node = function.node
        if scope_of(node)[3]:
            if isinstance(node, ast.Lambda):
                self.refuse("yield in a lambda is not followed")
            return Lazy(self.stream(node.body, frame))
        if isinstance(node, ast.Lambda):
            self.place = frame.file, node.body.lineno
            return self.evaluate(node.body, frame)
        found = self.block(node.body, frame)
        return found.value if type(found) is _Returned else None

    def block(self, statements: list[ast.stmt], frame: Frame) -> Any:
        """Run statements; what a ``return``, ``break`` or ``continue`` among them gives."""
        for statement in statements:
            self.step()
            self.place = frame.file, statement.lineno
            action = _ACTIONS.get(type(statement))
            if action is None:
                self.refuse(f"{type(statement).__name__} is not followed")
            found = action(self, statement, frame)
            if found is not None:
                return found
        return None

    def expression(self, node: ast.Expr, frame: Frame) -> None:
        """An expression of which nothing is kept."""
        self.evaluate(node.value, frame)

    def returned(self, node: ast.Return, frame: Frame) -> Any:
        """``return``."""
        return _Returned(None if node.value is None else self.evaluate(node.value, frame))

    def assignment(self, node: ast.Assign, frame: Frame) -> None:
        """``a = b = value``."""
        value = self.evaluate(node.value, frame)
        for target in node.targets:
            self.assign(target, value, frame)

    def annotated(self, node: ast.AnnAssign, frame: Frame) -> None:
        """``a: kind = value``."""
        if node.value is not None:
            self.assign(node.target, self.evaluate(node.value, frame), frame)

    def assign(self, target: ast.expr, value: Any, frame: Frame) -> None:
        """Give a value to a name, an attribute, an entry, or several of these."""
        if isinstance(target, ast.Name):
            self._bind_name(target.id, value, frame)
        elif isinstance(target, ast.Tuple | ast.List):
            self._unpack(target.elts, value, frame)
        elif isinstance(target, ast.Attribute):
            self.set_attribute(self.evaluate(target.value, frame), target.attr, value)
        elif isinstance(target, ast.Subscript):
            owner = self.evaluate(target.value, frame)
            self.set_entry(owner, self.evaluate(target.slice, frame), value)
        else:
            self.refuse(f"a value for {type(target).__name__} is not followed")

    def _unpack(self, targets: list[ast.expr], value: Any, frame: Frame) -> None:
        entries = list(self.iterate(value))
        starred = [k for k, t in enumerate(targets) if isinstance(t, ast.Starred)]
        short = len(entries) < len(targets) - bool(starred)
        if short or (not starred and len(entries) != len(targets)):
            raise Thrown(ValueError(f"expected {len(targets)} values, got {len(entries)}"))
        if starred:
            (place,) = starred
            after = len(targets) - place - 1
            middle = self.own(entries[place : len(entries) - after])
            entries = [*entries[:place], middle, *entries[len(entries) - after :]]
        for target, entry in zip(targets, entries, strict=True):
            self.assign(target.value if isinstance(target, ast.Starred) else target, entry, frame)

    def set_entry(self, owner: Any, index: Any, value: Any) -> None:
        """``owner[index] = value``, of what this call made."""
        hook = self.method(owner, "__setitem__")
        if hook is not None:
            hook(index, value)
            return
        self.may_write(owner)
        kind = type(owner)
        if kind is list and type(index) is not slice:
            place = self.decided(self.passes(index, "an index"))
            self.run(lambda: operator.setitem(owner, place, value))
        elif kind is list:
            entries = list(self.iterate(value))
            self.passes(index, "an index")
            self.run(lambda: operator.setitem(owner, index, entries))
        elif kind in (dict, defaultdict):
            self.check_key(owner, index)
            self.run(lambda: operator.setitem(owner, index, value))
        else:
            self.through(operator.setitem, (owner, index, value), {}, "[]=")

    def augmented(self, node: ast.AugAssign, frame: Frame) -> None:
        """``a += b``."""
        target = node.target
        action, name = BINARY[type(node.op)]
        if isinstance(target, ast.Name):
            if frame.home(target.id) is None:
                self._bind_name(target.id, None, frame)
            before = self.lookup(target.id, frame)
            new = self._in_place(action, name, before, self.evaluate(node.value, frame))
            self._bind_name(target.id, new, frame)
            return
        owner = self.evaluate(target.value, frame)
        if isinstance(target, ast.Attribute):
            before = self.attribute(owner, target.attr)
            new = self._in_place(action, name, before, self.evaluate(node.value, frame))
            self.set_attribute(owner, target.attr, new)
            return
        index = self.evaluate(target.slice, frame)
        before = self.entry(owner, index)
        new = self._in_place(action, name, before, self.evaluate(node.value, frame))
        self.set_entry(owner, index, new)

    def _in_place(self, action: Any, name: str, before: Any, value: Any) -> Any:
        kind = type(before)
        hook = self.method(before, f"__i{name}__")
        if hook is not None:
            return hook(value)
        if kind is list and name == "add":
            self.may_write(before)
            before += list(self.iterate(value))
            return before
        if kind in (np.ndarray, TracedArray, dict, set, bytearray, list):
            self.may_write(before)
            return self.through(_INPLACE[name], (before, value), {}, name)
        return self.binary(action, name, before, value)

    def branch(self, node: ast.If, frame: Frame) -> Any:
        """``if``."""
        taken = self.truth(self.evaluate(node.test, frame))
        return self.block(node.body if taken else node.orelse, frame)

    def loop(self, node: ast.For, frame: Frame) -> Any:
        """``for``."""
        for entry in self.iterate(self.evaluate(node.iter, frame)):
            self.assign(node.target, entry, frame)
            found = self.block(node.body, frame)
            if found is BREAK:
                return None
            if found is not None and found is not CONTINUE:
                return found
        return self.block(node.orelse, frame)

    def repeat(self, node: ast.While, frame: Frame) -> Any:
        """``while``."""
        while self.truth(self.evaluate(node.test, frame)):
            found = self.block(node.body, frame)
            if found is BREAK:
                return None
            if found is not None and found is not CONTINUE:
                return found
        return self.block(node.orelse, frame)

    def stop(self, node: ast.Break, frame: Frame) -> Any:
        """``break``."""
        return BREAK

    def skip(self, node: ast.Continue, frame: Frame) -> Any:
        """``continue``."""
        return CONTINUE

    def nothing(self, node: ast.stmt, frame: Frame) -> None:
        """``pass``, and what only says where names belong."""

    def check(self, node: ast.Assert, frame: Frame) -> None:
        """``assert``."""
        if not sys.flags.optimize and not self.truth(self.evaluate(node.test, frame)):
            said = () if node.msg is None else (self.evaluate(node.msg, frame),)
            raise Thrown(AssertionError(*said))

    def throw(self, node: ast.Raise, frame: Frame) -> None:
        """``raise``."""
        if node.exc is None:
            current: Any = frame.values.get("<error>")
            if current is None:
                self.refuse("raise without an exception is not followed here")
            raise Thrown(current)
        error = self.evaluate(node.exc, frame)
        if type(error) is type:
            error = self.call(error, (), {})
        if not issubclass(type(error), Exception):
            self.refuse(f"it raises {type(error).__name__}")
        raise Thrown(error)

    def guard(self, node: ast.Try, frame: Frame) -> Any:
        """``try``."""
        try:
            found = self._guarded(node, frame)
        except Thrown:
            ended = self.block(node.finalbody, frame)
            if ended is not None:
                return ended
            raise
        ended = self.block(node.finalbody, frame)
        return found if ended is None else ended

    def _guarded(self, node: ast.Try, frame: Frame) -> Any:
        try:
            found = self.block(node.body, frame)
        except Thrown as thrown:
            for handler in node.handlers:
                if self._catches(handler, thrown.error, frame):
                    return self._handled(handler, thrown.error, frame)
            raise
        return found if found is not None else self.block(node.orelse, frame)

    def _catches(self, handler: ast.ExceptHandler, error: BaseException, frame: Frame) -> bool:
        if handler.type is None:
            return True
        kinds = self.evaluate(handler.type, frame)
        return any(any(base is kind for base in type(error).__mro__)
                   for kind in self._classes(kinds))  # fmt: skip

    def _handled(self, handler: ast.ExceptHandler, error: BaseException, frame: Frame) -> Any:
        outer = frame.values.get("<error>")
        frame.values["<error>"] = error
        if handler.name is not None:
            self._bind_name(handler.name, error, frame)
        found = self.block(handler.body, frame)
        frame.values["<error>"] = outer
        if handler.name is not None:
            frame.values.pop(handler.name, None)
        return found

    def context(self, node: ast.With, frame: Frame) -> Any:
        """``with``."""
        return self._within(node.items, node.body, frame)

    def _within(self, items: list[ast.withitem], body: list[ast.stmt], frame: Frame) -> Any:
        if not items:
            return self.block(body, frame)
        manager = self.evaluate(items[0].context_expr, frame)
        if type(manager) is np.errstate:
            with manager:
                return self._within(items[1:], body, frame)
        enter, leave = self.method(manager, "__enter__"), self.method(manager, "__exit__")
        if enter is None or leave is None:
            self.refuse(f"with {type(manager).__name__} is not followed")
        value = enter()
        if items[0].optional_vars is not None:
            self.assign(items[0].optional_vars, value, frame)
        try:
            found = self._within(items[1:], body, frame)
        except Thrown as thrown:
            if not self.truth(leave(type(thrown.error), thrown.error, None)):
                raise
            return None
        leave(None, None, None)
        return found

    def remove(self, node: ast.Delete, frame: Frame) -> None:
        """``del``."""
        for target in node.targets:
            if isinstance(target, ast.Name):
                home = frame.home(target.id)
                if home is None:
                    self.refuse(f"it deletes {target.id}, which it did not make")
                home.values.pop(target.id, None)
            elif isinstance(target, ast.Subscript):
                owner = self.evaluate(target.value, frame)
                index = self.evaluate(target.slice, frame)
                self.may_write(owner)
                self._check_kind(owner, (list, dict), "del")
                if type(owner) is dict:
                    self.check_key(owner, index)
                self.passes(index, "an index")
                self.run(functools.partial(operator.delitem, owner, index))
            else:
                self.refuse("del of an attribute is not followed")

    def match(self, node: ast.Match, frame: Frame) -> Any:
        """``match``."""
        subject = self.evaluate(node.subject, frame)
        for case in node.cases:
            if self._matches(case.pattern, subject, frame) and (
                case.guard is None or self.truth(self.evaluate(case.guard, frame))
            ):
                return self.block(case.body, frame)
        return None


_ACTIONS: dict[type, Any] = {
    ast.Expr: Interpreter.expression,
    ast.Return: Interpreter.returned,
    ast.Assign: Interpreter.assignment,
    ast.AnnAssign: Interpreter.annotated,
    ast.AugAssign: Interpreter.augmented,
    ast.If: Interpreter.branch,
    ast.For: Interpreter.loop,
    ast.While: Interpreter.repeat,
    ast.Break: Interpreter.stop,
    ast.Continue: Interpreter.skip,
    ast.Pass: Interpreter.nothing,
    ast.Global: Interpreter.nothing,
    ast.Nonlocal: Interpreter.nothing,
    ast.FunctionDef: Interpreter.define,
    ast.ClassDef: Interpreter.define_class,
    ast.Assert: Interpreter.check,
    ast.Raise: Interpreter.throw,
    ast.Try: Interpreter.guard,
    ast.With: Interpreter.context,
    ast.Import: Interpreter.take,
    ast.ImportFrom: Interpreter.take_from,
    ast.Delete: Interpreter.remove,
    ast.Match: Interpreter.match,
}
