"""Definitions, imports and patterns of interpreted code."""

from __future__ import annotations

import ast
import importlib
import sys
import types
from abc import abstractmethod
from typing import Any

from fedrec_auditor.auditor.tracing import known
from fedrec_auditor.auditor.tracing.expressions import Expressions
from fedrec_auditor.auditor.tracing.frames import Frame, Function, scope_of
from fedrec_auditor.auditor.tracing.symbols import Symbol
from fedrec_auditor.targets.wrapped.client import own_randomness


class Definitions(Expressions):
    """Names, and what gives them their values other than by ``=``."""

    @abstractmethod
    def block(self, statements: list[ast.stmt], frame: Frame) -> Any:
        """Run statements; see ``Interpreter``."""

    def _bind_name(self, name: str, value: Any, frame: Frame) -> None:
        home = frame.home(name)
        if home is None:
            self.refuse(
                f"it changes what it keeps between calls ({name}), on which later answers may "
                "depend"
            )
        home.values[name] = value

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
        if name not in sys.modules:  # as the first call would, with coins of its own
            with own_randomness():
                self.run(lambda: importlib.import_module(name))
            self.special = known.special_functions()
        module = sys.modules[name]
        if type(module) is not types.ModuleType:
            self.refuse(f"it imports {name}, which is no plain module")
        return module

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
