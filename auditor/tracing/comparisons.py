"""Comparisons, identity and membership in interpreted code."""

from __future__ import annotations

import ast
import operator
import types
from collections import defaultdict
from typing import Any

import numpy as np

from fedrec_auditor.auditor.tracing import known
from fedrec_auditor.auditor.tracing.arrays import MaskedEntries, TracedArray
from fedrec_auditor.auditor.tracing.comprehensions import Comprehensions
from fedrec_auditor.auditor.tracing.frames import Function
from fedrec_auditor.auditor.tracing.generator import TracedGenerator
from fedrec_auditor.auditor.tracing.objects import METACLASSES
from fedrec_auditor.auditor.tracing.symbols import Symbol

_COMPARE: dict[type, tuple[Any, str, str]] = {
    ast.Eq: (operator.eq, "eq", "eq"),
    ast.NotEq: (operator.ne, "ne", "ne"),
    ast.Lt: (operator.lt, "lt", "gt"),
    ast.LtE: (operator.le, "le", "ge"),
    ast.Gt: (operator.gt, "gt", "lt"),
    ast.GtE: (operator.ge, "ge", "le"),
}
_IDENTIFIED = (list, dict, set, np.ndarray, types.ModuleType, TracedGenerator, Function)
_FAST = (int, float, bool)


class Comparisons(Comprehensions):
    """Comparisons of two values."""

    def compare(self, how: ast.cmpop, a: Any, b: Any) -> Any:
        """One comparison."""
        if isinstance(how, ast.Is | ast.IsNot):
            return self._is(a, b) is isinstance(how, ast.Is)
        if isinstance(how, ast.In | ast.NotIn):
            found = self._contains(b, a)
            if isinstance(how, ast.In):
                return found
            return self.run(lambda: not found)
        action, name, mirrored = _COMPARE[type(how)]
        if type(a) in _FAST and type(b) in _FAST:
            return action(a, b)
        for value, other, method in ((a, b, name), (b, a, mirrored)):
            hook = self.method(value, f"__{method}__")
            if hook is not None:
                found = hook(other)
                if found is not NotImplemented:
                    return found
        kinds = (type(a), type(b))
        if name in ("eq", "ne") and all(k in METACLASSES for k in kinds):
            return (a is b) is (name == "eq")
        own = [self.is_python_class(k) and not issubclass(k, tuple) for k in kinds]
        if name in ("eq", "ne") and any(own) and self._by_identity(a) and self._by_identity(b):
            return (a is b) is (name == "eq")
        return self.through(action, (a, b), {}, name)

    def _by_identity(self, value: Any) -> bool:
        kind = type(value)
        if kind in known.METHODS or value is None:
            return True
        return self.in_class(kind, "__eq__") is object.__eq__

    def _is(self, a: Any, b: Any) -> bool:
        """Identity, which of numbers and texts is a matter of chance."""
        single = (type(None), bool, type(...), type(NotImplemented))
        for one, other in ((a, b), (b, a)):
            if type(one) in (Symbol, MaskedEntries) and type(other) is bool:
                self.refuse("it looks at the identity of a draw")
            if type(one) in single or (self.is_python_class(type(one)) and type(one) not in (
                tuple, *known.METHODS)):  # fmt: skip
                return a is b
        if type(a) in METACLASSES or type(b) in METACLASSES:
            return a is b
        if type(a) in _IDENTIFIED or type(b) in _IDENTIFIED:
            return a is b
        self.refuse("it looks at the identity of plain values")

    def _contains(self, container: Any, value: Any) -> Any:
        kind = type(container)
        hook = self.method(container, "__contains__")
        if hook is not None:
            return self.truth(hook(value))
        if kind in (dict, defaultdict):
            self.check_key(container, value)
            return self.run(lambda: value in container)
        if kind in (list, tuple, set, frozenset, str, bytes, range, np.ndarray, TracedArray):
            return self.through(operator.contains, (container, value), {}, "in", orderless=True)
        return any(self.truth(self.compare(ast.Eq(), e, value)) for e in self.iterate(container))
