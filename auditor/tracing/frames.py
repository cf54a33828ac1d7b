"""Frames of interpreted calls: the names of a scope, and the scopes around it."""

from __future__ import annotations

import ast
import types
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_LOOPS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(slots=True)
class Frame:
    """A scope that runs: its own names and values, and where other names are looked up.

    ``cells`` are the closure of a function that was made outside of the call; ``parent`` is the
    frame in which a function of the call was made; ``skipped`` marks the body of a class, whose
    names are not seen by the functions in it.
    """

    file: str
    names: dict[str, Any]
    own: frozenset[str]
    module: dict[str, Any]
    parent: Frame | None = None
    cells: dict[str, types.CellType] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    shared: frozenset[str] = frozenset()
    of_module: frozenset[str] = frozenset()
    skipped: bool = False
    owner: Any = None
    first: Any = None

    def home(self, name: str) -> Frame | None:
        """The frame that holds a name; None for a name of the module or of an outside closure."""
        frame: Frame | None = self
        here = True
        while frame is not None:
            if name in frame.of_module:
                return None
            if name in frame.own and (here or not frame.skipped):
                return frame
            if name in frame.cells:
                return None
            frame, here = frame.parent, False
        return None

    def cell(self, name: str) -> types.CellType | None:
        """The cell of an outside closure that holds a name."""
        frame: Frame | None = self
        while frame is not None:
            if name in frame.of_module:
                return None
            if name in frame.cells:
                return frame.cells[name]
            frame = frame.parent
        return None


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """A function that is interpreted: its tree, its defaults, and the frame in which it was made.

    ``owner`` is the class that holds it, for ``super()``.
    """

    node: ast.FunctionDef | ast.Lambda
    file: str
    module: dict[str, Any]
    defaults: tuple[Any, ...]
    keyword_defaults: dict[str, Any]
    parent: Frame | None = None
    cells: dict[str, types.CellType] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name that messages give."""
        return self.node.name if isinstance(self.node, ast.FunctionDef) else "<lambda>"


@lru_cache(maxsize=4096)
def scope_of(node: ast.AST) -> tuple[frozenset[str], frozenset[str], frozenset[str], bool]:
    """The own names of a scope, its nonlocal and global names, and whether it is a generator."""
    own: set[str] = set()
    shared: set[str] = set()
    of_module: set[str] = set()
    yields = False
    if isinstance(node, ast.FunctionDef | ast.Lambda):
        arguments = node.args
        listed = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        listed += [a for a in (arguments.vararg, arguments.kwarg) if a is not None]
        own |= {a.arg for a in listed}
    body = node.body if isinstance(node, _SCOPES) else [node]
    for part in _own_nodes(body if isinstance(body, list) else [body]):
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store | ast.Del):
            own.add(part.id)
        elif isinstance(part, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
            own.add(part.name)
        elif isinstance(part, ast.Import | ast.ImportFrom):
            own |= {a.asname or a.name.partition(".")[0] for a in part.names}
        elif isinstance(part, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and part.name:
            own.add(part.name)
        elif isinstance(part, ast.MatchMapping) and part.rest:
            own.add(part.rest)
        elif isinstance(part, ast.Nonlocal):
            shared |= set(part.names)
        elif isinstance(part, ast.Global):
            of_module |= set(part.names)
        yields |= isinstance(part, ast.Yield | ast.YieldFrom | ast.Await)
    own -= shared | of_module
    return frozenset(own), frozenset(shared), frozenset(of_module), yields


def _own_nodes(nodes: list[Any]) -> Iterator[ast.AST]:
    """All nodes of a scope, without those of the scopes within it."""
    for node in nodes:
        yield node
        if isinstance(node, _LOOPS):
            # Only what ``:=`` binds, and the first iterable, belong to the scope around.
            for part in ast.walk(node):
                if isinstance(part, ast.NamedExpr):
                    yield part.target
        elif isinstance(node, _SCOPES):
            yield from _own_nodes(list(getattr(node, "decorator_list", [])))
        else:
            yield from _own_nodes(list(ast.iter_child_nodes(node)))
