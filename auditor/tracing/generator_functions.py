"""Generator functions of interpreted code."""

from __future__ import annotations

import ast
from collections.abc import Generator
from typing import Any

from fedrec_auditor.auditor.tracing.definitions import Definitions
from fedrec_auditor.auditor.tracing.frames import Frame

BREAK, CONTINUE = object(), object()
"""How a block ends that goes on elsewhere."""


def _yields(node: ast.AST) -> bool:
    """Whether a yield stands in a statement, but for functions within it."""
    if isinstance(node, ast.Yield | ast.YieldFrom):
        return True
    if isinstance(node, ast.FunctionDef | ast.Lambda | ast.ClassDef):
        return False
    return any(map(_yields, ast.iter_child_nodes(node)))


class GeneratorFunctions(Definitions):
    """Bodies of generator functions, a value at a time."""

    def stream(self, statements: list[ast.stmt], frame: Frame) -> Generator[Any, None, Any]:
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
                found = yield from self.stream(statement.body if taken else statement.orelse, frame)
            elif isinstance(statement, ast.For | ast.While) and not statement.orelse:
                found = yield from self._stream_of_loop(statement, frame)
            else:
                self.refuse("a yield is not followed here")
            if found is not None:
                return found
        return None

    def _stream_of_loop(self, node: ast.For | ast.While, frame: Frame) -> Generator[Any, None, Any]:
        entries = self.iterate(self.evaluate(node.iter, frame)) if isinstance(node, ast.For) else ()
        rounds = iter(entries)
        while True:
            if isinstance(node, ast.While):
                if not self.truth(self.evaluate(node.test, frame)):
                    return None
            else:
                entry = next(rounds, BREAK)
                if entry is BREAK:
                    return None
                self.assign(node.target, entry, frame)
            found = yield from self.stream(node.body, frame)
            if found is BREAK:
                return None
            if found is not None and found is not CONTINUE:
                return found
