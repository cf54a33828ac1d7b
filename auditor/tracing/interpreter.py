"""An interpreter of Python functions over symbols: whatever it does not know is refused.

It runs a function by its syntax tree. Names, control flow, closures and objects of Python classes
are its own; everything else is called through the gate. It writes to nothing that the call did not
make, and patches nothing.
"""

from __future__ import annotations

import ast
import operator
import sys
import types
from collections import defaultdict
from collections.abc import Generator
from typing import Any

import numpy as np

from fedrec_auditor.auditor.tracing import known
from fedrec_auditor.auditor.tracing.arrays import TracedArray
from fedrec_auditor.auditor.tracing.expressions import _BINARY, Expressions
from fedrec_auditor.auditor.tracing.frames import Frame, Function, scope_of
from fedrec_auditor.auditor.tracing.gate import Lazy, Thrown
from fedrec_auditor.auditor.tracing.symbols import Symbol

_BREAK, _CONTINUE = object(), object()
_INPLACE = {
    name: getattr(operator, f"i{name}")
    for name in "add sub mul truediv floordiv mod pow lshift rshift xor matmul".split()
} | {"or": operator.ior, "and": operator.iand}


def _yields(node: ast.AST) -> bool:
    """Whether a yield stands in a statement, but for functions within it."""
    if isinstance(node, ast.Yield | ast.YieldFrom):
        return True
    if isinstance(node, ast.FunctionDef | ast.Lambda | ast.ClassDef):
        return False
    return any(map(_yields, ast.iter_child_nodes(node)))


class _Returned:
    """What a function returns."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class Interpreter(Expressions):
    """Statements, and the functions that they make up."""

    def run_body(self, function: Function, frame: Frame) -> Any:
        """The result of a function whose arguments stand in ``frame``."""
        node = function.node
        if scope_of(node)[3]:
            if isinstance(node, ast.Lambda):
                self.refuse("yield in a lambda is not followed")
            return Lazy(self._stream(node.body, frame))
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
            self.rng.path.check_time()
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

    def _bind_name(self, name: str, value: Any, frame: Frame) -> None:
        home = frame.home(name)
        if home is None:
            self.refuse(
                f"it changes what it keeps between calls ({name}), on which later answers may "
                "depend"
            )
        home.values[name] = value

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
        action, name = _BINARY[type(node.op)]
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
            if found is _BREAK:
                return None
            if found is not None and found is not _CONTINUE:
                return found
        return self.block(node.orelse, frame)

    def repeat(self, node: ast.While, frame: Frame) -> Any:
        """``while``."""
        while self.truth(self.evaluate(node.test, frame)):
            found = self.block(node.body, frame)
            if found is _BREAK:
                return None
            if found is not None and found is not _CONTINUE:
                return found
        return self.block(node.orelse, frame)

    def stop(self, node: ast.Break, frame: Frame) -> Any:
        """``break``."""
        return _BREAK

    def skip(self, node: ast.Continue, frame: Frame) -> Any:
        """``continue``."""
        return _CONTINUE

    def _stream(self, statements: list[ast.stmt], frame: Frame) -> Generator[Any, None, Any]:
        """What the body of a generator function yields; where it goes on afterwards, as ``block``.

        ``yield`` stands as a statement, or as the value of an assignment, in ``if``, ``for``,
        ``while`` and ``try`` without handlers; elsewhere it is refused.
        """
        for statement in statements:
            self.step()
            self.place = frame.file, statement.lineno
            found: Any = None
            value = getattr(statement, "value", None)
            if not _yields(statement):
                found = self.block([statement], frame)
            elif isinstance(statement, ast.Expr | ast.Assign) and isinstance(value, ast.YieldFrom):
                yield from self.iterate(self.evaluate(value.value, frame))
            elif isinstance(statement, ast.Expr | ast.Assign) and isinstance(value, ast.Yield):
                yield None if value.value is None else self.evaluate(value.value, frame)
                if isinstance(statement, ast.Assign):
                    for target in statement.targets:
                        self.assign(target, None, frame)
            elif isinstance(statement, ast.If) and not _yields(statement.test):
                taken = self.truth(self.evaluate(statement.test, frame))
                found = yield from self._stream(
                    statement.body if taken else statement.orelse, frame
                )
            elif isinstance(statement, ast.For | ast.While) and not statement.orelse:
                found = yield from self._stream_of_loop(statement, frame)
            else:
                self.refuse("a yield is not followed here")
            if found is not None:
                return found
        return None

    def _stream_of_loop(
        self, node: ast.For | ast.While, frame: Frame
    ) -> Generator[Any, None, Any]:
        entries = self.iterate(self.evaluate(node.iter, frame)) if isinstance(node, ast.For) else ()
        rounds = iter(entries)
        while True:
            if isinstance(node, ast.While):
                if not self.truth(self.evaluate(node.test, frame)):
                    return None
            else:
                entry = next(rounds, _BREAK)
                if entry is _BREAK:
                    return None
                self.assign(node.target, entry, frame)
            found = yield from self._stream(node.body, frame)
            if found is _BREAK:
                return None
            if found is not None and found is not _CONTINUE:
                return found

    def nothing(self, node: ast.stmt, frame: Frame) -> None:
        """``pass``, and what only says where names belong."""

    def define(self, node: ast.FunctionDef, frame: Frame) -> None:
        """``def``."""
        made: Any = self.made_function(node, frame)
        for decorator in reversed(node.decorator_list):
            made = self.call(self.evaluate(decorator, frame), (made,), {})
        self._bind_name(node.name, made, frame)

    def define_class(self, node: ast.ClassDef, frame: Frame) -> None:
        """``class``, without decorators and metaclasses."""
        bases = tuple(self.evaluate(base, frame) for base in node.bases)
        plain = all(type(b) is type and self.in_class(b, "__init_subclass__")
                    is object.__dict__["__init_subclass__"] for b in bases)  # fmt: skip
        if node.keywords or node.decorator_list or not plain:
            self.refuse(f"the class {node.name} is made in a way that is not followed")
        own = scope_of(node)[0]
        inside = Frame(frame.file, {}, own, frame.module, frame, skipped=True)
        cell = types.CellType()
        inside.cells = {"__class__": cell}
        self.block(node.body, inside)
        for value in inside.values.values():
            self._check_member(value)
        made = type(node.name, bases, dict(inside.values))
        cell.cell_contents = made
        self._bind_name(node.name, made, frame)

    def _check_member(self, value: Any) -> None:
        kind = type(value)
        if kind is not Function and kind not in known.METHODS and kind not in (Symbol, type(None)):
            self.refuse(f"a class holds a {kind.__name__}, which is not followed")

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

    def take(self, node: ast.Import, frame: Frame) -> None:
        """``import``, of modules that are there."""
        for part in node.names:
            module = self._module(part.name)
            if part.asname is None:
                self._bind_name(part.name.partition(".")[0], self._module(
                    part.name.partition(".")[0]), frame)  # fmt: skip
            else:
                self._bind_name(part.asname, module, frame)

    def take_from(self, node: ast.ImportFrom, frame: Frame) -> None:
        """``from module import name``."""
        if node.level:
            package = str(frame.module.get("__package__") or "")
            parts = package.split(".")
            parts = parts[: len(parts) - node.level + 1]
            name = ".".join([*parts, *([node.module] if node.module else [])])
        else:
            name = str(node.module)
        module = self._module(name)
        for part in node.names:
            if part.name == "*":
                self.refuse("import * is not followed")
            self._bind_name(part.asname or part.name, self.attribute(module, part.name), frame)

    def _module(self, name: str) -> types.ModuleType:
        module = sys.modules.get(name)
        if type(module) is not types.ModuleType:
            self.refuse(f"it imports {name}, which is no plain module that is there")
        return module

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
                self.run(lambda owner=owner, index=index: operator.delitem(owner, index))
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

    def _matches(self, pattern: ast.pattern, value: Any, frame: Frame) -> bool:
        if isinstance(pattern, ast.MatchValue):
            return self.truth(self.compare(ast.Eq(), value, self.evaluate(pattern.value, frame)))
        if isinstance(pattern, ast.MatchSingleton):
            return bool(self.compare(ast.Is(), value, pattern.value))
        if isinstance(pattern, ast.MatchOr):
            return any(self._matches(part, value, frame) for part in pattern.patterns)
        if isinstance(pattern, ast.MatchAs):
            if pattern.pattern is not None and not self._matches(pattern.pattern, value, frame):
                return False
            if pattern.name is not None:
                self._bind_name(pattern.name, value, frame)
            return True
        if isinstance(pattern, ast.MatchSequence) and not any(
            isinstance(part, ast.MatchStar) for part in pattern.patterns
        ):
            if type(value) not in (list, tuple):
                if type(value) in (str, bytes, int, float, bool, dict, type(None)):
                    return False
                self.refuse(f"match of a {type(value).__name__} is not followed")
            return len(value) == len(pattern.patterns) and all(
                self._matches(part, entry, frame)
                for part, entry in zip(pattern.patterns, value, strict=True)
            )
        if isinstance(pattern, ast.MatchMapping) and pattern.rest is None:
            if type(value) is not dict:
                return False
            keys = [self.evaluate(key, frame) for key in pattern.keys]
            return all(self._contains(value, key) for key in keys) and all(
                self._matches(part, self.entry(value, key), frame)
                for key, part in zip(keys, pattern.patterns, strict=True)
            )
        if isinstance(pattern, ast.MatchClass) and not pattern.patterns:
            kind = self.evaluate(pattern.cls, frame)
            return self._instance((value, kind), {}) and all(
                self._matches(part, self.attribute(value, name), frame)
                for name, part in zip(pattern.kwd_attrs, pattern.kwd_patterns, strict=True)
            )
        self.refuse(f"{type(pattern).__name__} is not followed")


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

