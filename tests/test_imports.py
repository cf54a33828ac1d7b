"""Tests of imports and names: no circular imports, no import of private names, no class name twice.

Imports in functions, and imports for types only, count like all others.
"""

from __future__ import annotations

import ast
import functools
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDERS = ("accountants", "attacks", "auditor", "reports", "targets")
# Modules that speak of the parts of another top-level folder, and so may import them.
MAY_REACH = {
    "auditor.catalogue": "targets",
    "auditor.games": "attacks",
    "auditor.reproductions": "attacks",
    "auditor.tracing": "targets",
}


@functools.cache
def list_modules() -> dict[str, Path]:
    found = {}
    for path in (path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(("fedrec_auditor", *parts)).removesuffix(".__init__")
        found[name] = path
    return found


@functools.cache
def parse_modules() -> dict[str, ast.Module]:
    """The parsed sources, by module."""
    return {
        name: ast.parse(path.read_text(encoding="utf-8")) for name, path in list_modules().items()
    }


def list_imports(tree: ast.Module, known: set[str]) -> set[str]:
    """Modules among ``known`` that a source imports anywhere."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= (inner & known) or {node.module}
    return found & known


def find_circle(graph: dict[str, set[str]]) -> list[str]:
    """Modules that remain if modules without imports from the others are removed repeatedly."""
    remaining = {name: set(uses) for name, uses in graph.items()}
    while done := [name for name, uses in remaining.items() if not uses & remaining.keys()]:
        for name in done:
            del remaining[name]
    return sorted(remaining)


def test_a_circle_is_found_wherever_it_is_hidden() -> None:
    sources = {
        "a": "def f():\n    from b import x",
        "b": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import a",
        "c": "import a",
        "d": "",
    }
    graph = {
        name: list_imports(ast.parse(source), set(sources)) for name, source in sources.items()
    }
    assert find_circle(graph) == ["a", "b", "c"]


def test_no_modules_import_each_other() -> None:
    known = set(parse_modules())
    assert len(known) > 300
    graph = {name: list_imports(tree, known) - {name} for name, tree in parse_modules().items()}
    assert find_circle(graph) == []


def is_private(name: str, importer: str) -> bool:
    """Whether the module ``importer`` may not import the dotted ``name``.

    A name with an underscore belongs to its own folder. A module in a folder ``parts`` belongs to
    its top-level folder, and to the modules that ``MAY_REACH`` it.
    """
    words, place = name.split("."), importer.split(".")
    for at, word in enumerate(words[1:], 1):
        if word.startswith("_") and not word.startswith("__"):
            owner = (
                words[: at - 1]
                if ROOT.joinpath(*words[:at]).with_suffix(".py").is_file()
                else words[:at]
            )
            return place[: len(owner)] != owner
        if word == "parts" and words[0] != place[0]:
            reaching = ".".join(place[:2])
            return MAY_REACH.get(reaching) != words[0]
    return False


def find_private(tree: ast.Module, importer: str) -> set[str]:
    """Names that a source imports although they are private to other folders."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("fedrec_auditor."):
            module = str(node.module).removeprefix("fedrec_auditor.")
            found |= {f"{module}.{alias.name}" for alias in node.names}
    return {name for name in found if is_private(name, importer)}


def test_no_module_imports_what_is_private_to_another_folder() -> None:
    found = {
        (importer, name)
        for importer, tree in parse_modules().items()
        for name in find_private(tree, importer.removeprefix("fedrec_auditor."))
    }
    assert found == set()


def test_what_is_private_is_found() -> None:
    source = "from fedrec_auditor.{} import {}"
    for module, name, importer in (
        ("targets.datasets.parts.source", "DataFiles", "auditor.runner"),
        ("attacks.parts", "bits", "auditor.runner"),
        ("attacks.base", "_hidden", "auditor.runner"),
        ("attacks._hidden", "name", "auditor.runner"),
        ("targets.systems._hidden", "name", "targets.mechanisms.laplace_mechanisms"),
    ):
        assert find_private(ast.parse(source.format(module, name)), importer), (module, importer)
    for module, name, importer in (
        ("targets.mechanisms.parts.bases", "noise", "targets.papers.privrec.systems"),
        ("targets.papers.dplcf.jaccard", "similarity", "auditor.catalogue"),
        ("attacks.base", "_hidden", "attacks.likelihood_ratio"),
        ("attacks.base", "__doc__", "auditor.runner"),
        ("targets.datasets.base", "Dataset", "auditor.runner"),
    ):
        assert not find_private(ast.parse(source.format(module, name)), importer), (
            module,
            importer,
        )


def test_no_public_class_name_is_defined_twice() -> None:
    found = defaultdict(list)
    for name, tree in parse_modules().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(name)
    assert {name: places for name, places in found.items() if len(places) > 1} == {}
