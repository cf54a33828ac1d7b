"""Comprehensions and generator expressions of interpreted code."""

from __future__ import annotations

import ast
from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

from fedrec_auditor.auditor.tracing.calls import FunctionCalls
from fedrec_auditor.auditor.tracing.frames import Frame
from fedrec_auditor.auditor.tracing.gate import Lazy


class Comprehensions(FunctionCalls):
    """Loops within expressions."""

    @abstractmethod
    def assign(self, target: ast.expr, value: Any, frame: Frame) -> None:
        """``target = value``; see ``Interpreter``."""

    def _looped(self, node: Any, frame: Frame, element: Callable[[Frame], Any]) -> Iterator[Any]:
        """The elements of a comprehension, as they are asked for."""
        names = set()
        for part in node.generators:
            for inner in ast.walk(part.target):
                if isinstance(inner, ast.Name):
                    names.add(inner.id)
        inside = Frame(frame.file, {}, frozenset(names), frame.module, frame, owner="loop")
        first = self.iterate(self.evaluate(node.generators[0].iter, frame))

        def run(place: int) -> Iterator[Any]:
            if place == len(node.generators):
                yield element(inside)
                return
            part = node.generators[place]
            if part.is_async:
                self.refuse("async is not followed")
            entries = first if place == 0 else self.iterate(self.evaluate(part.iter, inside))
            for entry in entries:
                self.assign(part.target, entry, inside)
                if all(self.truth(self.evaluate(test, inside)) for test in part.ifs):
                    yield from run(place + 1)

        return run(0)

    def list_loop(self, node: ast.ListComp, frame: Frame) -> Any:
        """``[... for ...]``."""
        loop = self._looped(node, frame, lambda inside: self.evaluate(node.elt, inside))
        return self.own(list(loop))

    def set_loop(self, node: ast.SetComp, frame: Frame) -> Any:
        """``{... for ...}``."""
        loop = self._looped(node, frame, lambda inside: self.evaluate(node.elt, inside))
        entries = [self.passes(entry, "a set") for entry in loop]
        return self.own(self.run(lambda: set(entries)))

    def dict_loop(self, node: ast.DictComp, frame: Frame) -> Any:
        """``{...: ... for ...}``."""

        def pair(inside: Frame) -> Any:
            key = self.passes(self.evaluate(node.key, inside), "a dict")
            return key, self.evaluate(node.value, inside)

        pairs = list(self._looped(node, frame, pair))
        return self.own(self.run(lambda: dict(pairs)))

    def lazy_loop(self, node: ast.GeneratorExp, frame: Frame) -> Any:
        """``(... for ...)``."""
        return Lazy(self._looped(node, frame, lambda inside: self.evaluate(node.elt, inside)))
