"""No circle of modules in the source, be an import in a function or for types only."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDERS = ("accountants", "attacks", "auditor", "reports", "targets")


def modules() -> dict[str, Path]:
    found = {}
    for path in (path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(("fedrec_auditor", *parts)).removesuffix(".__init__")
        found[name] = path
    return found


def imported(source: str, known: set[str]) -> set[str]:
    """The modules among ``known`` that a source imports anywhere."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= (inner & known) or {node.module}
    return found & known


def circle(graph: dict[str, set[str]]) -> list[str]:
    """Modules left when those that import none of the others are taken away, again and again."""
    left = {name: set(uses) for name, uses in graph.items()}
    while done := [name for name, uses in left.items() if not uses & left.keys()]:
        for name in done:
            del left[name]
    return sorted(left)


def test_a_circle_is_found_wherever_it_is_hidden() -> None:
    sources = {
        "a": "def f():\n    from b import x",
        "b": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import a",
        "c": "import a",
        "d": "",
    }
    graph = {name: imported(source, set(sources)) for name, source in sources.items()}
    assert circle(graph) == ["a", "b", "c"]


def test_no_modules_import_each_other() -> None:
    found = modules()
    assert len(found) > 300
    graph = {
        name: imported(path.read_text(encoding="utf-8"), set(found)) - {name}
        for name, path in found.items()
    }
    assert circle(graph) == []
